//! The objects that the dynamic linker has mapped, and lookups in them.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use crate::ground::dlsym;

/// One mapped program or library.
pub(crate) struct MappedObject {
    /// The path that it was opened by; empty for the program itself.
    path: CString,
    /// Its loaded segments.
    segments: Vec<Range<usize>>,
}

impl MappedObject {
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.segments.iter().any(|segment| segment.contains(&address))
    }

    /// Where the segment with this address ends.
    pub(crate) fn segment_end(&self, address: usize) -> Option<usize> {
        self.segments.iter().find(|segment| segment.contains(&address)).map(|segment| segment.end)
    }

    /// Where its first segment is mapped.
    pub(crate) fn start(&self) -> Option<usize> {
        self.segments.first().map(|segment| segment.start)
    }

    /// A number that distinguishes this library from others, also from earlier or later ones at its address.
    pub(crate) fn identity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.path, self.start()).hash(&mut hasher);
        hasher.finish()
    }

    /// The path that it was opened by; empty for the program itself.
    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// The last component of its path.
    pub(crate) fn file_name(&self) -> &[u8] {
        let path = self.path.to_bytes();
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
    }
}

/// Held while the loader's list is walked. The C library leaves the lock of that list in a forked child as it was. If
/// another thread held it, it would never be released there, and the child's first HIP call would wait forever.
static WALKING: Mutex<()> = Mutex::new(());

/// How often, a millisecond apart, a thread that forks checks whether any thread walks. A signal handler that
/// interrupts a walk and forks would otherwise wait for itself.
const CHECKS: u32 = 50;

thread_local! {
    /// The guard of a thread that forks.
    static NO_WALK: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Before a fork: waits until no thread walks, and prevents further walks.
pub(crate) fn hold_for_fork() {
    for _ in 0..CHECKS {
        match WALKING.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            // The lock protects nothing that a panic could leave undone.
            Err(TryLockError::Poisoned(poisoned)) => return keep(poisoned.into_inner()),
            Ok(guard) => return keep(guard),
        }
    }
}

fn keep(guard: MutexGuard<'static, ()>) {
    // The thread is ending, so it does not fork.
    let _ = NO_WALK.try_with(|kept| *kept.borrow_mut() = Some(guard));
}

/// After a fork, in both processes.
pub(crate) fn release_after_fork() {
    let _ = NO_WALK.try_with(|kept| kept.borrow_mut().take());
}

/// What is mapped right now, in the loader's order.
pub(crate) fn mapped() -> Vec<MappedObject> {
    let mut objects: Vec<MappedObject> = Vec::new();
    let _walking = WALKING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the callback gets back the vector that is passed here, which no other thread uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut objects).cast()) };
    objects
}

/// Appends one object to the vector behind `objects`.
unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, objects: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record, and its name is a C string; the vector is `mapped`'s.
    let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<MappedObject>>()) };
    // SAFETY: as above; the program headers are mapped for as long as the object is.
    let (path, headers) = unsafe {
        (CStr::from_ptr(info.dlpi_name), slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    let segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        start..start + header.p_memsz as usize
    });
    objects.push(MappedObject { path: path.to_owned(), segments: segments.collect() });
    0
}

/// The definition of `name` that follows the shim's own in the global scope.
pub(crate) fn next_definition(name: &CStr) -> Option<NonNull<c_void>> {
    dlsym::look_up(libc::RTLD_NEXT, name)
}

/// A reference to a mapped object: it stays mapped for as long as this lives.
pub(crate) struct Handle(NonNull<c_void>);

impl Handle {
    /// Takes a reference to an object that is mapped, and never maps one.
    ///
    /// None for the program itself, whose scope is the global one, and for objects that the loader does not know by
    /// path.
    pub(crate) fn of_mapped(object: &MappedObject) -> Option<Self> {
        if object.path.is_empty() {
            return None;
        }
        // SAFETY: with RTLD_NOLOAD nothing is loaded, so no constructor runs.
        let handle = unsafe { libc::dlopen(object.path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        NonNull::new(handle).map(Self)
    }

    /// Never releases the reference.
    pub(crate) fn keep_mapped(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).0
    }

    /// A handle whose reference [`Handle::keep_mapped`] has kept.
    pub(crate) fn borrow(kept: NonNull<c_void>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(kept))
    }

    /// The definition of `name` in the object or, in their order, in its dependencies.
    pub(crate) fn definition(&self, name: &CStr) -> Option<NonNull<c_void>> {
        dlsym::look_up(self.0.as_ptr(), name)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: this reference is released once. Other references keep the object mapped: it has called into the
        // shim and is running.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_walks_the_list_while_a_process_is_forked() {
        hold_for_fork();
        assert!(WALKING.try_lock().is_err());
        let walker = thread::spawn(|| mapped().len());
        release_after_fork();
        assert!(walker.join().unwrap() > 0);

        // A handler of a signal that has interrupted a walk forks.
        let walking = WALKING.lock().unwrap_or_else(PoisonError::into_inner);
        hold_for_fork();
        release_after_fork();
        drop(walking);
        assert!(!mapped().is_empty());
    }
}
