use crate::engine::Command;
use crate::error::HipError;
use crate::{boundary, fat_binary, isolated, stream};

#[test]
fn a_child_is_refused_and_leaves_without_waiting() {
    isolated::run(&[], || {
        let stream = stream::resolve(core::ptr::null_mut()).unwrap();
        let (gate, open) = Command::gate();
        let held_up = stream.submit(gate);
        // SAFETY: the child only makes the calls under test, which take no lock, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the modules' address is not dereferenced.
            unsafe {
                libc::alarm(60);
                let refused = boundary::call(|| Ok(())) == HipError::NotInitialized.code();
                fat_binary::unregister(core::ptr::null_mut());
                libc::_exit(if refused { 7 } else { 1 });
            }
        }
        let mut status = 0;
        // SAFETY: waits for the child, with a local for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
        assert_eq!(boundary::call(|| Ok(())), 0, "the parent's calls succeed");
        drop(open);
        held_up.wait();
    });
}
