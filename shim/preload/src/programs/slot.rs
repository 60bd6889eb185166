//! The slots of this process's threads: each thread finds its answers in its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_protocol::verdict::VERDICT_SLOTS;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = VERDICT_SLOTS / WORD_BITS;

/// A bit for each slot that a thread has.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// A thread's slot, given back when the thread ends.
struct Own(Cell<Option<usize>>);

thread_local! {
    static OWN: Own = const { Own(Cell::new(None)) };
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            TAKEN[slot / WORD_BITS].fetch_and(!(1 << (slot % WORD_BITS)), Ordering::Relaxed);
        }
    }
}

/// The calling thread's slot; None if all are taken, or the thread is ending.
pub fn own() -> Option<usize> {
    OWN.try_with(|own| {
        if own.0.get().is_none() {
            own.0.set(take());
        }
        own.0.get()
    })
    .ok()
    .flatten()
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
    if let Ok(Some(slot)) = OWN.try_with(|own| own.0.get()) {
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
