//! The chains that are known, by their ids, with an end to their memory.
//!
//! Every way through a program is a chain, so a process can have as many as it likes. When all of them together have too many frames,
//! those of the process with the most are forgotten, and its programs send again what it still uses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::chain::Chain;

/// Number of chains of one process after which the programs start a new generation, so that old ones can be forgotten.
const CHAINS_MAX: usize = 1 << 16;

/// Frames of all chains, of some 80 bytes each: as many as 128 processes have with 1,000 chains of 64 frames.
const FRAMES_MAX: usize = 8 << 20;

/// How long old chains are kept after the programs have stopped using them, for calls that are still in progress.
const OLD: Duration = Duration::from_mins(1);

pub(super) struct KnownChains {
    chains: HashMap<u64, KnownChain>,
    /// What each process has of them.
    held: HashMap<u32, Held>,
    frames: usize,
    frames_max: usize,
}

struct KnownChain {
    chain: Arc<Chain>,
    pid: u32,
    generation: u64,
    used: Instant,
}

#[derive(Debug, Default)]
struct Held {
    chains: usize,
    frames: usize,
}

/// What one more chain leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    Fits,
    /// The process should begin a new generation.
    Many,
    /// There are too many frames, so all chains of this process were forgotten.
    Forgot(u32),
}

impl KnownChains {
    pub(super) fn new() -> Self {
        Self { chains: HashMap::new(), held: HashMap::new(), frames: 0, frames_max: FRAMES_MAX }
    }

    /// A process has a chain with this id.
    pub(super) fn add(&mut self, id: u64, pid: u32, generation: u64, chain: Chain) -> Added {
        let frames = chain.frames.len();
        let known = KnownChain { chain: Arc::new(chain), pid, generation, used: Instant::now() };
        let before = self.chains.insert(id, known);
        if let Some(before) = &before {
            self.uncount(before);
        }
        let held = self.held.entry(pid).or_default();
        held.chains += 1;
        held.frames += frames;
        let is_many = before.is_none() && held.chains.is_multiple_of(CHAINS_MAX);
        self.frames += frames;
        if self.frames > self.frames_max
            && let Some((&most, _)) = self.held.iter().max_by_key(|(_, held)| held.frames)
        {
            self.forget(most);
            return Added::Forgot(most);
        }
        if is_many { Added::Many } else { Added::Fits }
    }

    /// The chain with this id, which a call refers to.
    pub(super) fn find(&mut self, id: u64) -> Option<Arc<Chain>> {
        let known = self.chains.get_mut(&id)?;
        known.used = Instant::now();
        Some(Arc::clone(&known.chain))
    }

    /// Forgets all chains of a process.
    pub(super) fn forget(&mut self, pid: u32) {
        if let Some(held) = self.held.remove(&pid) {
            self.frames -= held.frames;
            self.chains.retain(|_, known| known.pid != pid);
        }
    }

    /// Forgets chains that no call can refer to any more, given the present generation of each process.
    pub(super) fn forget_old(&mut self, generation: impl Fn(u32) -> Option<u64>) {
        let is_old = |known: &KnownChain| {
            generation(known.pid) != Some(known.generation) && known.used.elapsed() >= OLD
        };
        let old: Vec<_> = self.chains.extract_if(|_, known| is_old(known)).collect();
        for (_, known) in &old {
            self.uncount(known);
        }
    }

    fn uncount(&mut self, known: &KnownChain) {
        let frames = known.chain.frames.len();
        if let Some(held) = self.held.get_mut(&known.pid) {
            held.chains -= 1;
            held.frames -= frames;
            self.frames -= frames;
        }
    }
}

#[cfg(test)]
mod tests {
    use xsched_abi::ChainEnd;

    use super::*;
    use crate::chain::{Frame, Label};

    fn chain(frames: usize) -> Chain {
        let frame = |number| Frame { library: "a.so".into(), name: None, address: number };
        Chain::new((0..frames as u64).map(frame).collect(), ChainEnd::Complete, None, Label::Name)
    }

    #[test]
    fn the_process_with_the_most_frames_makes_room() {
        let mut known = KnownChains { frames_max: 100, ..KnownChains::new() };
        assert_eq!(known.add(1, 7, 1, chain(10)), Added::Fits);
        for id in 2..10 {
            assert_eq!(known.add(id, 8, 1, chain(11)), Added::Fits);
        }
        // A chain that comes again counts once.
        assert_eq!(known.add(1, 7, 1, chain(12)), Added::Fits);
        assert_eq!(known.frames, 100);
        assert_eq!(known.add(10, 7, 1, chain(1)), Added::Forgot(8));
        assert_eq!((known.frames, known.chains.len()), (13, 2));
        assert!(known.find(1).is_some() && known.find(5).is_none());
        known.forget(7);
        assert_eq!((known.frames, known.chains.len(), known.held.len()), (0, 0, 0));
    }

    #[test]
    fn a_process_begins_a_generation_after_so_many_chains() {
        let mut known = KnownChains::new();
        let many = (0..2 * CHAINS_MAX as u64).filter(|&id| known.add(id, 7, 1, chain(1)) == Added::Many);
        assert_eq!(many.collect::<Vec<_>>(), [CHAINS_MAX as u64 - 1, 2 * CHAINS_MAX as u64 - 1]);
        // They are in use, or of the present generation.
        known.forget_old(|_| None);
        known.forget_old(|_| Some(1));
        assert_eq!(known.frames, 2 * CHAINS_MAX);
    }
}
