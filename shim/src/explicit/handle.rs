//! Names of objects.

/// Names an object for the program: `HwQueueHandle`, `XQueueHandle` or `HwCommandHandle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) u64);
