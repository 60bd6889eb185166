//! HIP as a device: the implementation of what queues require of one ([`xsched_xqueue::Device`]), and the shim's own
//! queries and actions on a runtime copy.

pub(crate) mod device;
pub(crate) mod failure;
pub(crate) mod gate;
pub(crate) mod marker;
pub(crate) mod owned;
pub(crate) mod partition;
pub(crate) mod program;
pub(crate) mod real;
