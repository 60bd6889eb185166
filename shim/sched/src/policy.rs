//! Policies: how urgent the claims of one device are, compared with each other.
//!
//! A policy ranks claims; it does not know levels, starvation or other devices. To add one, add a file with an implementation of
//! [`Policy`], and a line in `policies.rs`.

pub(crate) mod edf;
pub(crate) mod fair;
pub(crate) mod fixed_priority;
mod jobs;
pub(crate) mod laxity;
pub(crate) mod mlfq;
pub(crate) mod nice;
mod order;
pub(crate) mod partition;
pub(crate) mod quota;
pub(crate) mod slo;
mod virtual_time;

use std::fmt;

use crate::claim::{Claim, Process};
use crate::ranks::Ranks;
use crate::{Attributes, Nanos, Settings};

/// A device as its policy sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) settings: &'a Settings,
    pub(crate) claims: &'a [Claim],
    /// Indexed by [`Claim::process`].
    pub(crate) processes: &'a [Process],
    /// Indices of processes whose work, requests or charge may have changed since the last call; all of them if `altered`.
    pub(crate) changed: &'a [usize],
    /// Since the last call claims were opened or closed, or their attributes have changed.
    pub(crate) altered: bool,
    /// A claim with work is in its starvation slice, whatever the ranks are.
    pub(crate) has_starvation_slice: bool,
}

/// One policy on one device.
///
/// Processes are known by their index. A policy that keeps data about each has a `Vec` parallel to [`View::processes`]; the calls of
/// [`Policy::joined`] and [`Policy::left`] keep it in step.
pub(crate) trait Policy: fmt::Debug + Send {
    /// A process was added at the end.
    fn joined(&mut self) {}

    /// Whether ranks depend on which claims have work and on charges, and not only on which claims exist.
    fn follows_work(&self) -> bool {
        true
    }

    /// A process was removed; the last one now has its index.
    fn left(&mut self, index: usize) {
        let _ = index;
    }

    /// Sets the rank of each claim of [`View::claims`], by its index. Earlier ranks stay, unless the view is `altered`. Returns when
    /// to call it again if no change comes before.
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos>;
}

/// The shortest interval between two looks of a policy that follows device time, which may grow more slowly than the clock.
const LOOK_EVERY: Nanos = Nanos::from_micros(100);

/// Maps priorities so that larger ones come first.
fn downwards(priority: i16) -> u16 {
    Attributes::PRIORITY_MAX.abs_diff(priority)
}
