//! Chains that wait for the names of their functions: a file is still being opened.
//!
//! Only some are named again at a time, and each is kept only as long as a call waits for it. A file system may never answer,
//! while a process makes any number of chains.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use xsched_abi::ChainEnd;

/// How often chains are named again, and how many at once: each asks for the file of every function without a name.
const NAME: Duration = Duration::from_millis(20);
const NAMED_MAX: usize = 256;

/// Most chains that wait.
const WAITING_MAX: usize = 8192;

/// A chain that has been walked.
pub(super) struct Nameless {
    pub(super) id: u64,
    pub(super) pid: u32,
    pub(super) generation: u64,
    pub(super) time_ns: u64,
    pub(super) frames: Vec<(u64, bool)>,
    pub(super) end: ChainEnd,
    /// When it was walked.
    pub(super) since: Instant,
}

/// Those that wait. The next to be named comes first.
pub(super) struct Waiting {
    chains: VecDeque<Nameless>,
    named: Instant,
    /// How long one waits.
    patience: Duration,
}

impl Waiting {
    pub(super) fn new(patience: Duration) -> Self {
        Self { chains: VecDeque::new(), named: Instant::now(), patience }
    }

    /// Whether a chain may wait, or is to be known as it is.
    pub(super) fn has_room_for(&self, nameless: &Nameless) -> bool {
        nameless.since.elapsed() < self.patience && self.chains.len() < WAITING_MAX
    }

    pub(super) fn push(&mut self, nameless: Nameless) {
        self.chains.push_back(nameless);
    }

    /// Takes the chains for which it is time.
    pub(super) fn take_due(&mut self) -> Vec<Nameless> {
        if self.named.elapsed() < NAME {
            return Vec::new();
        }
        self.named = Instant::now();
        self.chains.drain(..self.chains.len().min(NAMED_MAX)).collect()
    }

    /// Forgets the chains of a process; returns their ids.
    pub(super) fn forget(&mut self, pid: u32) -> Vec<u64> {
        let ids = self.chains.iter().filter(|chain| chain.pid == pid).map(|chain| chain.id).collect();
        self.chains.retain(|chain| chain.pid != pid);
        ids
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    fn nameless(id: u64, pid: u32) -> Nameless {
        let (frames, end) = (Vec::new(), ChainEnd::Complete);
        Nameless { id, pid, generation: 1, time_ns: 1, frames, end, since: Instant::now() }
    }

    #[test]
    fn chains_take_turns_and_do_not_wait_in_any_number_or_for_ever() {
        let mut waiting = Waiting::new(PATIENCE);
        let mut count = 0;
        while waiting.has_room_for(&nameless(count, 1)) {
            waiting.push(nameless(count, 1));
            count += 1;
        }
        assert_eq!(count, WAITING_MAX as u64);
        let mut named = HashSet::new();
        for _ in 0..WAITING_MAX.div_ceil(NAMED_MAX) {
            waiting.named -= NAME;
            let due = waiting.take_due();
            assert_eq!(due.len(), NAMED_MAX);
            named.extend(due.iter().map(|chain| chain.id));
            for chain in due {
                waiting.push(chain);
            }
            assert!(waiting.take_due().is_empty(), "it was just now");
        }
        assert_eq!(named.len(), WAITING_MAX, "each has had its turn");
        let old = Nameless { since: Instant::now().checked_sub(PATIENCE).unwrap(), ..nameless(0, 1) };
        assert!(!Waiting::new(PATIENCE).has_room_for(&old), "no call waits for it any more");
    }

    #[test]
    fn chains_of_a_process_that_has_ended_go() {
        let mut waiting = Waiting::new(PATIENCE);
        for (id, pid) in [(1, 7), (2, 8), (3, 7)] {
            waiting.push(nameless(id, pid));
        }
        assert_eq!((waiting.forget(7), waiting.chains.len()), (vec![1, 3], 1));
    }
}
