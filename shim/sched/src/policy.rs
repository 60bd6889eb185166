//! Policies: how urgent the queues of one device are beside each other.
//!
//! A policy ranks; it knows nothing of levels, of starvation or of other devices. To add one: one file with an
//! implementation of [`Policy`], and one line in `policies.rs`.

pub(crate) mod fair;
pub(crate) mod fixed_priority;
pub(crate) mod partition;
mod virtual_time;

use std::fmt;

use crate::queue::{Process, Queue};
use crate::ranks::Ranks;
use crate::{Attributes, Nanos, Settings};

/// What a policy sees of its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) settings: &'a Settings,
    pub(crate) queues: &'a [Queue],
    /// [`Queue::process`] is an index of these.
    pub(crate) processes: &'a [Process],
    /// Indices of those whose work or charge may have changed since the last call: all where anything is altered.
    pub(crate) changed: &'a [usize],
    /// Queues came or went, or something else is known of one, since the last call.
    pub(crate) altered: bool,
    /// Somebody has a turn now and work to use it for, whatever the ranks are.
    pub(crate) turn: bool,
}

/// One policy on one device.
///
/// Processes are known by their index. A policy that keeps something for each of them has a `Vec` beside
/// [`View::processes`], which [`Policy::joined`] and [`Policy::left`] keep in step.
pub(crate) trait Policy: fmt::Debug + Send {
    /// A process has been added at the end.
    fn joined(&mut self) {}

    /// Whether ranks depend on who has work and on what was used, and not only on who there is.
    fn follows_work(&self) -> bool {
        true
    }

    /// A process is gone; the last one has taken its place.
    fn left(&mut self, index: usize) {
        let _ = index;
    }

    /// Sets the rank of each queue of [`View::queues`], by its index. What was set last time stays, unless queues were
    /// altered. Returns when it wants to be asked again, if nothing happens before.
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos>;
}

/// Larger priorities first.
fn downwards(priority: i16) -> u16 {
    Attributes::PRIORITY_MAX.abs_diff(priority)
}
