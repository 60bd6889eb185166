//! Calls that wait for their chains.
//!
//! A thread's calls stay in the order in which they were recorded, so behind a call that waits its thread's later calls
//! wait too. Other threads' do not.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::chains::{Chains, Lookup};
use crate::call::HipCall;
use crate::chain::Chain;

/// How long a call waits for the record of its chain, which another thread may be about to write.
const RECORD_PATIENCE: Duration = Duration::from_millis(200);

/// Most calls that wait.
const HELD_MAX: usize = 1 << 18;

/// The calls.
#[derive(Default)]
pub(crate) struct Held {
    threads: HashMap<u32, VecDeque<Waiting>>,
    count: usize,
}

struct Waiting {
    call: HipCall,
    id: u64,
    since: Instant,
}

impl Held {
    /// Takes in a call whose chain has this id, or 0 for none; gives it back if it need not wait.
    pub(crate) fn take(&mut self, chains: &mut Chains, mut call: HipCall, id: u64) -> Option<HipCall> {
        if !self.threads.contains_key(&call.tid) && settle(chains, &mut call, id, Duration::ZERO, false) {
            return Some(call);
        }
        let waiting = Waiting { call, id, since: Instant::now() };
        self.threads.entry(waiting.call.tid).or_default().push_back(waiting);
        self.count += 1;
        None
    }

    /// Gives out the calls that need not wait any more; with `all` the others too, without their chains.
    pub(crate) fn release(&mut self, chains: &mut Chains, all: bool) -> Vec<HipCall> {
        let mut released = Vec::new();
        let mut excess = self.count.saturating_sub(HELD_MAX);
        self.threads.retain(|_, calls| {
            while let Some(waiting) = calls.front_mut()
                && settle(chains, &mut waiting.call, waiting.id, waiting.since.elapsed(), all || excess > 0)
            {
                excess = excess.saturating_sub(1);
                released.extend(calls.pop_front().map(|waiting| waiting.call));
            }
            !calls.is_empty()
        });
        self.count -= released.len();
        released
    }

    /// Whether any call waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Gives a call its chain; false if it has to wait for it.
fn settle(chains: &mut Chains, call: &mut HipCall, id: u64, waited: Duration, is_last: bool) -> bool {
    if id == 0 {
        return true;
    }
    match chains.find(id) {
        Lookup::Known(chain) => {
            call.origin = chain.origin.clone();
            call.chain = Some(chain);
        }
        Lookup::Waiting if !is_last => return false,
        Lookup::Unknown if !is_last && waited < RECORD_PATIENCE => return false,
        Lookup::Waiting | Lookup::Unknown => call.chain = Some(Chain::lost(&call.caller).into()),
    }
    true
}
