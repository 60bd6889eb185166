//! First come, first served: the process whose request began first has the device until it has no more work.

use crate::Nanos;
use crate::policy::{Policy, View};
use crate::ranks::{Rank, Ranks};

#[derive(Debug, Default)]
pub(crate) struct FirstCome;

impl Policy for FirstCome {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        let first = view.processes.iter().filter_map(|process| process.requests.began).min();
        for (index, claim) in view.claims.iter().enumerate() {
            let began = view.processes[claim.process].requests.began;
            let is_first = began.is_some() && began == first;
            // Equal ranks run side by side. `sliced`: another process will be first soon, so little is launched ahead.
            ranks.set(index, Rank { order: u64::from(!is_first), sliced: true });
        }
        // Only a change of work changes the order, never time alone.
        None
    }
}
