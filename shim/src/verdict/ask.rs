//! Asking the controller's programs: a call of a function that does nothing.
//!
//! The controller's program, attached to the function's first instruction, walks the stack from the registers that it
//! is given. It leaves the verdict in this thread's slot before the function returns. A call chain without a verdict
//! goes to the controller, which takes a moment: the answer is *pending*, and is asked for again.

use std::arch::naked_asm;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use xsched_protocol::verdict::Subject;
use xsched_sched::Nanos;
use xsched_xqueue::now;

use crate::abi::Frame;
use crate::counters::{self, VerdictSource};
use crate::verdict::page::{self, Answer};
use crate::verdict::slot;

/// How often a pending answer is asked for.
const ASK_EVERY: Duration = Duration::from_micros(500);

/// How long a call waits for an answer.
pub(crate) const ANSWER_LIMIT: Nanos = Nanos::from_millis(100);

/// How long no call waits for answers after one did not come.
const BACK_OFF: Nanos = Nanos::from_secs(1);

/// The end of the current back-off.
static BACK_OFF_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Numbers of questions. Each is used once in a process.
static TICKETS: AtomicU64 = AtomicU64::new(1);

/// Asks the controller's programs, see `xsched_protocol::verdict::CLASSIFY_SYMBOL`.
///
/// It begins with a `nop` of one byte, as `xsched_arbiter_report` does, and for the same reason.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn xsched_classify(slot: u64, ticket: u64, subject: u64, rip: u64, rsp: u64, rbp: u64) {
    naked_asm!(".cfi_startproc", "nop", "ret", ".cfi_endproc")
}

/// The programs' answer about a stopped call; None without an answer.
///
/// A call that needs no verdict does not wait for a pending answer. The site's next call asks again.
pub(super) fn ask(frame: &Frame, subject: Subject, needs_none: impl Fn() -> bool) -> Option<Answer> {
    let Some(slot) = slot::own() else {
        counters::verdict_found(VerdictSource::NoSlot);
        return None;
    };
    let asked = now();
    loop {
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        // The registers' values when the call has returned.
        let (rip, rsp) = (frame.return_address, frame.stack_arguments().addr() as u64);
        xsched_classify(slot as u64, ticket, subject.0, rip, rsp, frame.base_pointer);
        let Some(answer) = page::answer(slot, ticket) else {
            counters::verdict_found(VerdictSource::Unheard);
            return None;
        };
        if !answer.verdict.is_pending() {
            counters::verdict_found(VerdictSource::Programs);
            return Some(answer);
        }
        if needs_none() {
            counters::verdict_found(VerdictSource::NotAwaited);
            return None;
        }
        let time = now();
        let is_late = time - asked > ANSWER_LIMIT;
        if is_late {
            BACK_OFF_UNTIL.store((time + BACK_OFF).0, Ordering::Relaxed);
        }
        if is_late || time.0 < BACK_OFF_UNTIL.load(Ordering::Relaxed) {
            counters::verdict_found(VerdictSource::Late);
            return None;
        }
        thread::sleep(ASK_EVERY);
    }
}
