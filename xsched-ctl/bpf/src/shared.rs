//! Arrays that user space writes without system calls: BPF maps, mapped into memory.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use zerocopy::{Immutable, IntoBytes};

/// The elements of an array map with `BPF_F_MMAPABLE`, which programs read.
///
/// These writes and a program's reads are not ordered. So elements are written before anything refers to them.
#[derive(Debug)]
pub struct Shared<T> {
    start: NonNull<T>,
    count: usize,
    elements: PhantomData<T>,
}

impl<T: IntoBytes + Immutable> Shared<T> {
    /// Maps the `count` elements of a map. Their size is a multiple of eight, as for all types of `xsched_abi`.
    pub fn map(map: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        const { assert!(size_of::<T>().is_multiple_of(8), "the kernel rounds elements up to eight bytes") };
        let (bytes, access) = (count * size_of::<T>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, map, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, count, elements: PhantomData })
    }

    /// Writes elements from `first` on.
    ///
    /// # Panics
    ///
    /// If the map has fewer elements.
    pub fn write(&mut self, first: usize, elements: &[T]) {
        let end = first.checked_add(elements.len()).expect("counts of elements in memory do not overflow");
        assert!(end <= self.count, "elements {first}..{end} of {}", self.count);
        // SAFETY: the range lies in the mapping, to which nothing else in this process refers; programs only read it.
        unsafe {
            let to = self.start.as_ptr().add(first);
            std::ptr::copy_nonoverlapping(elements.as_ptr(), to, elements.len());
        }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing refers to it any more. munmap does not fail for a
        // mapping that was made.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}

// SAFETY: the mapping belongs to the process, and is only written through `&mut self`.
unsafe impl<T: Send> Send for Shared<T> {}
