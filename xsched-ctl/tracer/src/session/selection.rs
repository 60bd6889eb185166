//! Decides which of the resolved calls are recorded, and counts the outcomes.

use std::rc::Rc;

use xsched_abi::{ChainEnd, Counter};
use xsched_bpf::Losses;
use xsched_recording::LeftOut;

use crate::call::RuntimeCall;
use crate::filter::{Decision, Filters};

/// The filters, and counts of what they have decided.
pub(super) struct Selection {
    filters: Rc<Filters>,
    /// Calls that were left out here. The programs count what they leave out.
    left_out: LeftOut,
    /// Recorded launches whose kernels have no known name.
    unnamed: u64,
    /// Recorded calls by how their chains end.
    chain_ends: [u64; ChainEnd::ALL.len()],
}

impl Selection {
    pub(super) fn new(filters: Rc<Filters>) -> Self {
        Self { filters, left_out: LeftOut::default(), unnamed: 0, chain_ends: [0; ChainEnd::ALL.len()] }
    }

    pub(super) fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Whether a call is left out already before its chain is known, because the chain could not change that.
    pub(super) fn dismisses(&mut self, call: &RuntimeCall) -> bool {
        // Its executions count for the library to which it belongs, which its chain shows.
        if call.followed.is_some() {
            return false;
        }
        match self.filters.decide_early(call) {
            Some(Decision::LeaveOut(reason)) => {
                self.left_out.add(reason, 1);
                true
            }
            Some(Decision::NamesOnly) => true,
            Some(Decision::Record) | None => false,
        }
    }

    /// Whether a call is recorded; all of it is known by now.
    pub(super) fn takes(&mut self, call: &RuntimeCall) -> bool {
        match self.filters.decide(call) {
            Decision::Record => {
                if let Some(chain) = &call.chain {
                    self.chain_ends[chain.end as usize] += 1;
                }
                self.unnamed += u64::from(call.is_unnamed());
                true
            }
            Decision::NamesOnly => false,
            Decision::LeaveOut(reason) => {
                self.left_out.add(reason, 1);
                false
            }
        }
    }

    pub(super) fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Adds what is missing from the recorded calls.
    pub(super) fn add_losses(&self, mut losses: Losses) -> Losses {
        losses = losses.plus(Counter::KernelUnnamed, self.unnamed);
        for (end, count) in ChainEnd::ALL.into_iter().zip(self.chain_ends) {
            if let Some(cause) = Counter::of_chain(end) {
                losses = losses.plus(cause, count);
            }
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use xsched_recording::Reason;

    use super::*;
    use crate::call::tests::call;
    use crate::filter::Functions;

    fn selection(libraries: &[&str], kernels: &[&str]) -> Selection {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let filters = Filters::new(Functions::default(), &words(libraries), &words(kernels), 0, 1).unwrap();
        Selection::new(Rc::new(filters))
    }

    fn counted(selection: &Selection, of: Reason) -> u64 {
        selection.left_out().iter().find(|(reason, _)| *reason == of).map_or(0, |(_, count)| count)
    }

    #[test]
    fn a_call_without_the_wanted_kernel_does_not_wait_for_its_chain() {
        let mut selection = selection(&[], &["gemm*"]);
        let mut launch = call("hipLaunchKernel");
        launch.kernel = Some("add".into());
        assert!(selection.dismisses(&launch));
        launch.kernel = Some("gemm8".into());
        assert!(!selection.dismisses(&launch) && selection.takes(&launch));
        assert_eq!(counted(&selection, Reason::Kernel), 1);
    }

    #[test]
    fn a_call_whose_library_the_chain_may_say_waits_for_it() {
        let mut selection = selection(&["libtorch*"], &["gemm*"]);
        let launch = call("hipLaunchKernel");
        assert!(!selection.dismisses(&launch) && !selection.takes(&launch));
        assert_eq!((counted(&selection, Reason::Library), counted(&selection, Reason::Kernel)), (1, 0));
    }
}
