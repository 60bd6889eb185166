//! Deferring: which HIP calls are kept in XQueues, which wait in place, and which pass.
//!
//! ```text
//!   is anything suspended or deferred? -- no ---> the real function, at once
//!            | yes
//!   must this call wait? ----------------- no ---> the real function, at once
//!            | yes
//!   can it be made later? ---------------- yes --> deferred, success returned
//!            | no
//!   wait until it may be made -------------------> the real function
//! ```
//!
//! The hooks ask two questions. Calls that put work on a stream ask [submission]; calls that observe work, wait for
//! it, or take away something that it uses ask [ordering]. Both find the call's stream by [finding], and learn from
//! [dependencies] which commands the call comes after. They leave the waiting to [`xsched_xqueue`], and answer with a
//! [`Decision`]. What a call must own to be made later is decided in [deferrable]; while a stream captures,
//! [capturing] decides.
//!
//! A program may also do all of that itself, stream by stream, by XSched's functions: [program_queue].
//!
//! This holds for calls that are scheduled. Other calls go as soon as everything that they come after was launched,
//! see [`crate::verdict`].
//!
//! The first call that concerns a stream also claims its device and starts the client of the [controller].
//!
//! A stream has few forms on its way:
//!
//! | form | what it is |
//! | --- | --- |
//! | [`Stream`](crate::abi::Stream) | an argument of a call, as the application passes it |
//! | [`StreamName`](crate::runtime::stopped::StreamName) | the stream that a call means by it |
//! | [`KnownStream`](streams::KnownStream) | what deferring knows of it: its key, and an entry with its queue |
//! | [`HipStream`](crate::hip::marker::HipStream) | what the device layer needs to act on it |

mod capturing;
mod claims;
mod controller;
mod decision;
mod deferrable;
mod deferral;
mod dependencies;
pub(crate) mod exit;
mod finding;
mod graphs;
mod load;
mod ordering;
mod program_queue;
mod streams;
mod submission;
#[cfg(feature = "test-switches")]
pub(crate) mod test_suspension;
mod thread_end;

use xsched_xqueue::Usage;

use crate::hip::failure;
use crate::status::xsched_shim_status;
use deferral::{DEFERRAL, deferral};

pub(crate) use capturing::{capture_begins, capture_broke, capture_ended};
pub(crate) use decision::Decision;
pub(crate) use deferral::MODE;
#[cfg(test)]
pub(crate) use finding::tests as finding_tests;
pub(crate) use finding::{
    device_reset, device_set, event_destroyed, event_shared, stream_created, stream_destroyed,
};
pub(crate) use graphs::{graph_destroyed, graph_instantiated};
pub(crate) use ordering::order;
pub(crate) use program_queue::{
    COUNTS_CALLS, NoQueue, NotWaited, ProgramQueue, Submitted, ask_for_scheduler, count_call, counts_calls,
    tune_scheduler,
};
pub(crate) use submission::{admit_at_once, finish_at_once, passes_at_once, submit};
pub(crate) use thread_end::own_stream_used;

/// Whether any call may have to wait, or is to be followed for other processes. True until the first use of a device.
/// A process that has its devices for itself pays two loads for this question.
pub(crate) fn is_engaged() -> bool {
    !deferral::is_open() || failure::any_unreported()
}

/// In a forked child: deferred calls are its parent's.
pub(crate) fn renew_after_fork() {
    deferral::renew_after_fork();
    xsched_shim_status.gates.clear();
    finding::forget_set_devices();
}

/// What the process has used beside others; None if it was always alone.
pub(crate) fn usage() -> Option<Usage> {
    DEFERRAL.existing()?.queues.total_usage().filter(|usage| *usage != Usage::default())
}

/// Waits for everything that is deferred: for a call of which nothing is known.
pub(crate) fn drain() {
    deferral().drain();
}
