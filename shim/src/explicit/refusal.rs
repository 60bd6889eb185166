//! What a function of XSched cannot mean here, and why. The log says each once.

use std::sync::atomic::{AtomicU32, Ordering};

use xsched_preload::log;

use crate::explicit::code::XResult;
use crate::outcome::counted;

counted! {
    /// What is refused, or means something else than a program may expect.
    Refusal {
        Disabled = "XSCHED_DISABLE is set: there are no queues",
        PerThreadStream = "HipQueueCreate: a thread's own stream has no name in the thread that launches; create a stream",
        NoRuntime = "HipQueueCreate: no HIP runtime is loaded: call a HIP function first",
        NotInterposed = "calls of HIP go past the shim, so that only submitted commands are scheduled: link -lpreempt before -lamdhip64, or preload the shim",
        BlockingSubmit = "XQueueCreate: no blocking submission: call XQueueWait after XQueueSubmit",
        Interrupt = "preemption level 3 is level 2 here: a kernel that has started is not interrupted",
        DropCommands = "XQueueResume: no command is dropped",
        Laxity = "XHintLaxity: no priority that changes with time: give XHintDeadline, and the policy `laxity`",
        Policy = "XHintSetScheduler: there is no such policy here; docs/xsched.md says which others do the same",
        SchedulerStarted = "XHintSetScheduler: comes too late: call it before the first HIP function, or set XSCHED_SCHEDULER",
        Tuning = "XHintTimeslice, XHintKDeadline: the controller's configuration says so for all processes; a process can with XSCHED_SCHEDULER=LCL",
        TooManyHints = "XHintPriority, XHintUtilization, XHintDeadline: too many different hints in one process",
        WaitsForItself = "a command of a queue cannot wait for its own queue, nor destroy it",
        FullAndSuspended = "XQueueSubmit: the queue has 4096 commands, and the calling thread has itself suspended it: resume it first",
        Captures = "XQueueWait, XQueueWaitAll, HwQueueSynchronize: the stream captures, which a wait would end",
    }
}

/// Which were said.
static SAID: AtomicU32 = AtomicU32::new(0);
const _: () = assert!(Refusal::ALL.len() <= u32::BITS as usize);

/// Says why, unless that was said before.
pub(crate) fn say(refusal: Refusal) {
    let bit = 1 << refusal as u32;
    if SAID.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        log::write(&format!("xsched-shim: {}\n", refusal.text()));
    }
}

/// Refuses, and says why.
pub(crate) fn refuse(refusal: Refusal) -> XResult {
    say(refusal);
    match refusal {
        Refusal::SchedulerStarted
        | Refusal::TooManyHints
        | Refusal::WaitsForItself
        | Refusal::FullAndSuspended
        | Refusal::Captures => XResult::NOT_ALLOWED,
        Refusal::NoRuntime => XResult::NOT_FOUND,
        _ => XResult::NOT_SUPPORTED,
    }
}
