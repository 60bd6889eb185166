//! Calls that wait for their call chains.
//!
//! The calls of a thread stay in the order in which they were recorded, so later calls of the same thread wait too.
//! Calls of other threads do not.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use xsched_chains::{Caller, Chain, Chains, Lookup, Names};
use xsched_symbols::Processes;

use crate::call::RuntimeCall;

/// Most calls that wait.
const WAITING_MAX: usize = 1 << 18;

#[derive(Default)]
pub(crate) struct Chainless {
    threads: HashMap<u32, VecDeque<Waiting>>,
    count: usize,
}

struct Waiting {
    call: RuntimeCall,
    id: u64,
    since: Instant,
}

/// Where chains are looked up.
pub(crate) struct Source<'a> {
    pub(crate) chains: &'a mut Chains,
    pub(crate) processes: &'a mut Processes,
    pub(crate) names: &'a mut Names,
}

impl Chainless {
    /// Takes in a call whose chain has this id, or 0 for none; returns it if it need not wait.
    pub(crate) fn take(
        &mut self,
        mut source: Source<'_>,
        mut call: RuntimeCall,
        id: u64,
    ) -> Option<RuntimeCall> {
        if !self.threads.contains_key(&call.tid) && source.settle(&mut call, id, Duration::ZERO) {
            return Some(call);
        }
        let waiting = Waiting { call, id, since: Instant::now() };
        self.threads.entry(waiting.call.tid).or_default().push_back(waiting);
        self.count += 1;
        None
    }

    /// Returns the calls that need not wait any more; with `all` also the others, with what is known.
    pub(crate) fn release(&mut self, mut source: Source<'_>, all: bool) -> Vec<RuntimeCall> {
        let mut released = Vec::new();
        let mut excess = self.count.saturating_sub(WAITING_MAX);
        self.threads.retain(|_, calls| {
            while let Some(waiting) = calls.front_mut() {
                let waited = if all || excess > 0 { Duration::MAX } else { waiting.since.elapsed() };
                if !source.settle(&mut waiting.call, waiting.id, waited) {
                    break;
                }
                excess = excess.saturating_sub(1);
                released.extend(calls.pop_front().map(|waiting| waiting.call));
            }
            !calls.is_empty()
        });
        self.count -= released.len();
        released
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Source<'_> {
    /// A call that came through the shim is its caller's, whose frame the chain begins with.
    fn skip_shim(&mut self, call: &mut RuntimeCall, chain: &Chain) {
        let Some(first) = chain.frames.first().filter(|first| first.address != call.caller.address) else {
            return;
        };
        let (address, inside) = (first.address, first.address.wrapping_sub(1));
        let code = self.names.function(self.processes, call.pid, inside, call.begin_ns);
        call.caller = Caller { library: code.library, symbol: code.symbol, address };
    }

    /// Gives a call its chain; false if it must wait.
    fn settle(&mut self, call: &mut RuntimeCall, id: u64, waited: Duration) -> bool {
        if id == 0 {
            // Functions whose chains are recorded have one, unless there was no space for it.
            if call.has_chain() && self.chains.are_recorded() {
                call.chain = Some(Chain::lost(&call.caller).into());
            }
            return true;
        }
        match self.chains.find(self.processes, self.names, id, waited) {
            Lookup::Known(chain) => {
                call.origin = chain.origin.clone();
                self.skip_shim(call, &chain);
                call.chain = Some(chain);
            }
            Lookup::Waiting => return false,
            Lookup::Lost => call.chain = Some(Chain::lost(&call.caller).into()),
        }
        true
    }
}
