//! Calls to AMD's kernel driver: which of its commands an ioctl is, what it was given and what came back.
//!
//! | file | what |
//! | --- | --- |
//! | [`command`] | what is known about a command: name and fields |
//! | [`kfd`], [`drm`], [`amdgpu`] | the commands of `/dev/kfd`, those that all of `/dev/dri/*` has, and amdgpu's own |
//! | [`device`] | the devices of this machine |
//! | [`call`] | a recorded call, decoded |
//! | [`queues`] | which hardware queue was made for which stream |
//! | [`summary`] | totals per command |

mod amdgpu;
mod call;
mod command;
mod device;
mod drm;
mod errno;
#[cfg(test)]
mod headers;
mod kfd;
mod queues;
mod summary;

pub(crate) use call::{DriverCall, Shown};
pub(crate) use device::Listed;
pub use device::{Devices, number_of};
pub(crate) use queues::Queues;
pub(crate) use summary::DriverSummary;
