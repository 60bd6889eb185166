//! Calls to AMD's kernel driver: which command an ioctl is, its arguments and its results.
//!
//! | file | responsible for |
//! | --- | --- |
//! | [`command`] | the description of a command: name and fields |
//! | [`kfd`], [`drm`], [`amdgpu`] | the commands of `/dev/kfd`, the common ones of `/dev/dri/*`, and amdgpu's own |
//! | [`device`] | the devices of this machine |
//! | [`call`] | a recorded call, decoded |
//! | [`queues`] | which hardware queue was created for which stream |
//! | [`summary`] | totals for each command |

mod amdgpu;
mod call;
mod command;
mod device;
mod drm;
mod errno;
mod kfd;
mod queues;
mod summary;
#[cfg(test)]
mod tests;

pub(crate) use call::{DriverCall, Shown};
pub(crate) use device::Listed;
pub use device::{Devices, number_of};
pub(crate) use queues::{Queues, StreamQueues};
pub(crate) use summary::DriverSummary;
