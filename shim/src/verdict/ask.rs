//! Asking the programs: a call of a function that does nothing.
//!
//! The controller's program at its first instruction walks the stack from the registers that it is given, and leaves the
//! verdict in this thread's slot before the function returns. A chain of calls that nobody has judged yet goes to the
//! controller, which takes a moment: the answer is *pending*, and is asked for again.

use std::arch::naked_asm;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use xsched_protocol::verdict::Subject;
use xsched_sched::Nanos;

use crate::abi::Frame;
use crate::ground::counters::{self, VerdictSource};
use crate::verdict::page::{self, Answer};
use crate::verdict::slot;
use xsched_xqueue::now;

/// How often an answer that is pending is asked for.
const ASK_EVERY: Duration = Duration::from_micros(500);

/// How long a call waits for an answer.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(100);

/// How long nobody waits for answers after one did not come.
const SULK: Nanos = Nanos::from_secs(1);

/// Until when answers are not waited for.
static SULKS_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Numbers of questions. No two of a process are the same.
static TICKETS: AtomicU64 = AtomicU64::new(1);

/// Asks the controller's programs, see `xsched_protocol::verdict::CLASSIFY_SYMBOL`.
///
/// It begins with a `nop` of one byte, as `xsched_arbiter_report` does, and for the same reason.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn xsched_classify(slot: u64, ticket: u64, subject: u64, rip: u64, rsp: u64, rbp: u64) {
    naked_asm!(".cfi_startproc", "nop", "ret", ".cfi_endproc")
}

/// What the programs say of the call that the gate has stopped. None: they say nothing.
///
/// Who is in a hurry does not wait for an answer that is pending. It is asked about again at the site's next call.
pub(super) fn ask(frame: &Frame, subject: Subject, is_in_a_hurry: impl Fn() -> bool) -> Option<Answer> {
    let Some(slot) = slot::own() else {
        counters::verdict_found(VerdictSource::NoSlot);
        return None;
    };
    let asked = now();
    loop {
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        // As they will be when the call has returned.
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
        if is_in_a_hurry() {
            counters::verdict_found(VerdictSource::NotAwaited);
            return None;
        }
        let time = now();
        let is_late = time - asked > PATIENCE;
        if is_late {
            SULKS_UNTIL.store((time + SULK).0, Ordering::Relaxed);
        }
        if is_late || time.0 < SULKS_UNTIL.load(Ordering::Relaxed) {
            counters::verdict_found(VerdictSource::Late);
            return None;
        }
        thread::sleep(ASK_EVERY);
    }
}
