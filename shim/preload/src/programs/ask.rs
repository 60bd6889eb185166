//! Asking the controller's programs: a call of a function that does nothing.
//!
//! The controller's program, attached to the function's first instruction, walks the stack from the registers that it
//! is given. It leaves the verdict in this thread's slot before the function returns. A call chain without a verdict
//! goes to the controller, which takes a moment: the answer is *pending*, and is asked for again.

use std::arch::naked_asm;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use xsched_protocol::verdict::Subject;
use xsched_sched::Nanos;
use xsched_xqueue::now;

use super::page::{self, Answer};
use super::slot;

unsafe extern "C" {
    /// [`xsched_classify`] by a name that no other library has. A process with two shims has two of the function, and a call by the
    /// exported name would reach the first that was loaded.
    fn xsched_classify_of_this_library(slot: u64, ticket: u64, subject: u64, rip: u64, rsp: u64, rbp: u64);
}

/// The function that is called, if it is not this library's own.
static OTHER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// How often a pending answer is asked for.
const ASK_EVERY: Duration = Duration::from_micros(500);

/// How long a call waits for an answer.
pub const ANSWER_LIMIT: Nanos = Nanos::from_millis(100);

/// How long no call waits for answers after one did not come.
const BACK_OFF: Nanos = Nanos::from_secs(1);

/// The end of the current back-off.
static BACK_OFF_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Numbers of questions. Each is used once in a process.
static TICKETS: AtomicU64 = AtomicU64::new(1);

/// The registers of a call's caller, as they are when the call has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Where it returns.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The frame pointer.
    pub rbp: u64,
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// All slots are taken, or the thread is ending.
    NoSlot,
    /// No program was attached.
    Unheard,
    /// There is none yet, and the call does not wait for it.
    NotAwaited,
    /// It did not come in time.
    Late,
}

/// Questions go through another library's function of the same name from now on. A process with two shims has one probe.
///
/// # Safety
/// It is an `xsched_classify`, in a library that is never unmapped.
pub unsafe fn ask_through(function: *mut c_void) {
    OTHER.store(function, Ordering::Release);
}

/// Asks the controller's programs, see `xsched_protocol::verdict::CLASSIFY_SYMBOL`.
///
/// It begins with a `nop` of one byte, as `xsched_arbiter_report` does, and for the same reason.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn xsched_classify(slot: u64, ticket: u64, subject: u64, rip: u64, rsp: u64, rbp: u64) {
    naked_asm!(
        ".globl xsched_classify_of_this_library",
        ".hidden xsched_classify_of_this_library",
        "xsched_classify_of_this_library:",
        ".cfi_startproc",
        "nop",
        "ret",
        ".cfi_endproc"
    )
}

fn classify(slot: u64, ticket: u64, subject: Subject, Registers { rip, rsp, rbp }: Registers) {
    let other = OTHER.load(Ordering::Acquire);
    if other.is_null() {
        // SAFETY: the function above, which does nothing.
        return unsafe { xsched_classify_of_this_library(slot, ticket, subject.0, rip, rsp, rbp) };
    }
    // SAFETY: what `ask_through` was promised.
    unsafe {
        std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64, u64, u64, u64, u64)>(other)(
            slot, ticket, subject.0, rip, rsp, rbp,
        );
    }
}

/// The programs' answer about a call that returns to these registers.
///
/// A call that needs no verdict does not wait for a pending answer. Its site's next call asks again.
///
/// # Errors
/// Why there is no answer.
pub fn ask(
    registers: Registers,
    subject: Subject,
    needs_none: impl Fn() -> bool,
) -> Result<Answer, NoAnswer> {
    let slot = slot::own().ok_or(NoAnswer::NoSlot)?;
    let asked = now();
    loop {
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        classify(slot as u64, ticket, subject, registers);
        let answer = page::answer(slot, ticket).ok_or(NoAnswer::Unheard)?;
        if !answer.verdict.is_pending() {
            return Ok(answer);
        }
        if needs_none() {
            return Err(NoAnswer::NotAwaited);
        }
        let time = now();
        let is_late = time - asked > ANSWER_LIMIT;
        if is_late {
            BACK_OFF_UNTIL.store((time + BACK_OFF).0, Ordering::Relaxed);
        }
        if is_late || time.0 < BACK_OFF_UNTIL.load(Ordering::Relaxed) {
            return Err(NoAnswer::Late);
        }
        thread::sleep(ASK_EVERY);
    }
}
