//! Deferring: which HIP calls are deferred in XQueues, which wait in place, and which pass.
//!
//! ```text
//!   is anything suspended or deferred? -- no ---> the real function, at once
//!            | yes
//!   must this call wait? ----------------- no ---> the real function, at once
//!            | yes
//!   can it be made later? ---------------- yes --> deferred, success returned
//!            | no
//!   wait until it is its turn -------------------> the real function
//! ```
//!
//! Two questions come from the hooks. Calls that put work on a stream ask [submission]; calls that observe work, wait for
//! it or take something away that it uses ask [ordering]. Both find the call's stream by [finding], learn from [books]
//! what the call comes after, leave the waiting to [`xsched_xqueue`], and answer with a [`Decision`]. What a call must own
//! to be made later is in [own] and [owned]; while a stream captures, [capturing] decides.
//!
//! That is so for calls that are scheduled. Others go at once, behind what they come after, see [`crate::verdict`].
//!
//! The first call that concerns a stream also begins what has to do with other processes: the device is claimed, and the
//! [watcher](crate::arbiter) started.

mod books;
mod capturing;
mod claims;
mod controller;
mod decision;
mod deferral;
pub(crate) mod exit;
mod finding;
mod load;
mod ordering;
mod own;
mod streams;
mod submission;
pub(crate) mod test_suspension;

use crate::hip::failure;
use deferral::{DEFERRAL, deferral};
use xsched_xqueue::Usage;

pub(crate) use capturing::{capture_begins, capture_ended};
pub(crate) use decision::Decision;
#[cfg(test)]
pub(crate) use finding::tests as finding_tests;
pub(crate) use finding::{device_reset, device_set, stream_created, stream_destroyed};
pub(crate) use ordering::order;
pub(crate) use submission::{goes_by, submit};

/// Whether any call may have to wait, or others want to know of it. So it is until the first use of a device; a process that
/// has its devices for itself pays two loads for it.
pub(crate) fn is_engaged() -> bool {
    DEFERRAL.existing().is_none_or(|deferral| deferral.queues.is_engaged() || failure::any_unreported())
}

/// In a forked child: what is deferred is its parent's.
pub(crate) fn begin_afresh() {
    DEFERRAL.renew();
    streams::renew();
    finding::forget_set_devices();
}

/// What the process has used beside others; nothing if it was always alone.
pub(crate) fn usage() -> Option<Usage> {
    DEFERRAL.existing()?.queues.total_usage().filter(|usage| *usage != Usage::default())
}

/// A call that nobody knows anything about.
pub(crate) fn drain() {
    deferral().drain();
}
