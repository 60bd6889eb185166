//! A forked child of a process that has used the library: it has a copy of everything but the threads that do the work.
//!
//! Whatever it waited for would never come, and locks that those threads held are never given back. So its calls fail before they
//! touch anything, and what runs at its exit does nothing: a child that only wants to leave can.

use core::sync::atomic::{AtomicBool, Ordering};

static IS_FORKED_CHILD: AtomicBool = AtomicBool::new(false);

/// From now on a forked child is one of a process that has used the library.
pub(crate) fn watch() {
    extern "C" fn in_child() {
        IS_FORKED_CHILD.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler stores to an atomic. Without memory to register it children wait as they would have.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Whether the library was brought up by another process.
pub(crate) fn is_forked_child() -> bool {
    IS_FORKED_CHILD.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use crate::engine::Command;
    use crate::error::HipError;
    use crate::{boundary, fat_binary, isolated, runtime, stream};

    #[test]
    fn a_child_is_refused_and_leaves_without_waiting() {
        isolated::run(&[], || {
            let runtime = runtime::get();
            let stream = stream::resolve(core::ptr::null_mut()).unwrap();
            let (gate, open) = Command::gate();
            let held_up = runtime.submit(&stream, gate);
            // SAFETY: the child calls what this test is about, which takes no lock, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: as above; the modules are not looked at.
                unsafe {
                    libc::alarm(60);
                    let refused = boundary::call(|| Ok(())) == HipError::NotInitialized.code();
                    fat_binary::unregister(core::ptr::null_mut());
                    libc::_exit(if refused { 7 } else { 1 });
                }
            }
            let mut status = 0;
            // SAFETY: waits for the child, with a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
            assert_eq!(boundary::call(|| Ok(())), 0, "the parent goes on");
            drop(open);
            held_up.wait();
        });
    }
}
