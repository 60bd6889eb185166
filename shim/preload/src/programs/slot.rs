//! The slots of this process's threads: each thread finds its answers in its own.

use std::cell::Cell;
use std::ffi::c_void;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_protocol::verdict::VERDICT_SLOTS;

use crate::thread_end::ThreadEnd;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = VERDICT_SLOTS / WORD_BITS;

/// A bit for each slot that a thread has.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// What a thread has.
#[derive(Clone, Copy)]
enum Own {
    /// It has not asked yet.
    Unknown,
    Slot(usize),
    /// It has given its slot back.
    Ended,
}

thread_local! {
    static OWN: Cell<Own> = const { Cell::new(Own::Unknown) };
}

static END: ThreadEnd = ThreadEnd::new(give_back);

/// The calling thread's slot; None if all are taken, or the thread is ending, or the C library has no memory to note its end.
pub fn own() -> Option<usize> {
    match OWN.get() {
        Own::Slot(slot) => Some(slot),
        Own::Ended => None,
        Own::Unknown => {
            let slot = take()?;
            if !END.note(NonNull::without_provenance(NonZero::<usize>::MIN.saturating_add(slot))) {
                leave(slot);
                return None;
            }
            OWN.set(Own::Slot(slot));
            Some(slot)
        }
    }
}

/// The thread ends.
unsafe extern "C" fn give_back(noted: *mut c_void) {
    OWN.set(Own::Ended);
    leave(noted.addr() - 1);
}

fn leave(slot: usize) {
    TAKEN[slot / WORD_BITS].fetch_and(!(1 << (slot % WORD_BITS)), Ordering::Relaxed);
}

fn take() -> Option<usize> {
    // Relaxed: the bit is all that a slot consists of here. An answer that an earlier thread has left there has
    // another ticket.
    TAKEN.iter().enumerate().find_map(|(index, word)| {
        let taken = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken != u64::MAX).then(|| taken | (taken + 1))
        });
        taken.ok().map(|taken| index * WORD_BITS + taken.trailing_ones() as usize)
    })
}

/// In a forked child, which has only the calling thread.
pub(super) fn renew_after_fork() {
    for word in &TAKEN {
        word.store(0, Ordering::Relaxed);
    }
    if let Own::Slot(slot) = OWN.get() {
        TAKEN[slot / WORD_BITS].store(1 << (slot % WORD_BITS), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use super::*;

    #[test]
    fn threads_have_slots_of_their_own_and_give_them_back() {
        const THREADS: usize = 100;
        for _ in 0..12 {
            // More threads than there are slots, but not at the same time.
            let (seen, all_there) = (Mutex::new(HashSet::new()), Barrier::new(THREADS));
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let slot = own().expect("there are free slots");
                        all_there.wait();
                        assert_eq!(own(), Some(slot));
                        assert!(seen.lock().unwrap().insert(slot), "{slot} is another thread's");
                    });
                }
            });
        }
    }
}
