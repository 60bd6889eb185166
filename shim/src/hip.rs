//! HIP as a device: the implementation of what queues ask of one ([`xsched_xqueue::Device`]), and the questions that the shim
//! asks a runtime copy for itself.

pub(crate) mod device;
pub(crate) mod failure;
pub(crate) mod gate;
pub(crate) mod marker;
pub(crate) mod owned;
pub(crate) mod real;
