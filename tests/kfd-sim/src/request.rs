//! Requests to a device, and their arguments.

use std::ffi::{c_ulong, c_void};
use std::ptr;

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A request, whose argument is as large as the caller says.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) number: u32,
    pub(crate) letter: u32,
    size: usize,
    argument: *mut u8,
}

impl Request {
    pub(crate) fn new(request: c_ulong, argument: *mut c_void) -> Self {
        let bits = |from: u32, count: u32| request as u32 >> from & ((1 << count) - 1);
        Self {
            number: bits(0, 8),
            letter: bits(8, 8),
            size: bits(16, 14) as usize,
            argument: argument.cast(),
        }
    }

    /// Has `f` read and change the argument. What a caller of another version does not have is 0, and what it has more stays.
    pub(crate) fn with<T: FromBytes + Immutable + IntoBytes + Default>(
        &self,
        f: impl FnOnce(&mut T) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut value = T::default();
        let size = self.size.min(size_of::<T>());
        // SAFETY: the caller of `ioctl` has `self.size` bytes there, as the request says; no other thread uses them meanwhile.
        unsafe { ptr::copy_nonoverlapping(self.argument, ptr::from_mut(&mut value).cast(), size) };
        let result = f(&mut value);
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&value).cast(), self.argument, size) };
        result
    }
}
