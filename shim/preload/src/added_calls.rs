//! Calls of a runtime that the shim makes by itself, and announcements of deferred ones: tracers know both, see
//! `xsched_protocol::deferred`.

use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};

use xsched_protocol::deferred::NOT_DEFERRED;

/// Calls `function` with so many words of stack behind six registers; returns what it leaves in `rax`. The return address tells tracers
/// that the shim adds the call.
///
/// # Safety
/// The function takes such arguments, all of them numbers or pointers, and these are valid for it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_added_call(
    function: *mut c_void,
    registers: *const [u64; REGISTERS],
    stack: *const u64,
    stack_words: usize,
) -> u64 {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov r11, rdi",
        "mov r10, rsi",
        "test rcx, rcx",
        "jz 2f",
        // An even number of words keeps the stack aligned.
        "lea rax, [rcx + 1]",
        "and rax, -2",
        "shl rax, 3",
        "sub rsp, rax",
        "mov rsi, rdx",
        "mov rdi, rsp",
        "rep movsq",
        "2:",
        "mov rdi, [r10]",
        "mov rsi, [r10 + 8]",
        "mov rdx, [r10 + 16]",
        "mov rcx, [r10 + 24]",
        "mov r8, [r10 + 32]",
        "mov r9, [r10 + 40]",
        "xor eax, eax",
        "call r11",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Words that are passed in registers.
pub const REGISTERS: usize = 6;

/// A number or pointer, as it is passed to a function.
pub trait Word {
    /// As a register holds it.
    fn word(self) -> u64;
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Word for $number {
            #[inline]
            fn word(self) -> u64 {
                self.into()
            }
        })*
    };
}
numbers!(u8 u16 u32 u64);

impl Word for i32 {
    #[inline]
    fn word(self) -> u64 {
        self as u64
    }
}

impl Word for usize {
    #[inline]
    fn word(self) -> u64 {
        self as u64
    }
}

impl<T> Word for *mut T {
    #[inline]
    fn word(self) -> u64 {
        self.expose_provenance() as u64
    }
}

impl<T> Word for *const T {
    #[inline]
    fn word(self) -> u64 {
        self.expose_provenance() as u64
    }
}

/// The same with an array of words.
///
/// # Safety
/// As for [`xsched_added_call`].
#[inline]
pub unsafe fn added_call<const N: usize>(function: *mut c_void, words: [u64; N]) -> u64 {
    let mut registers = [0; REGISTERS];
    let (passed, stack) = words.split_at(N.min(REGISTERS));
    registers[..passed.len()].copy_from_slice(passed);
    // SAFETY: the caller's promise.
    unsafe { xsched_added_call(function, &raw const registers, stack.as_ptr(), stack.len()) }
}

/// Defers a call; false if it is not.
type Defer<'a> = &'a mut dyn FnMut() -> bool;

thread_local! {
    /// What the thread's call of an announcing function is to do.
    static DEFER: Cell<Option<*mut Defer<'static>>> = const { Cell::new(None) };
}

/// Runs `defer` within a call of an announcing function, which `call` makes with the program's arguments. None: it was not deferred.
pub fn announcing<R>(call: impl FnOnce(), defer: impl FnOnce() -> Option<R>) -> Option<R> {
    let (mut defer, mut outcome) = (Some(defer), None);
    let mut act = || {
        // It must not unwind through the announcing function, which has no frame.
        let done = defer.take().map(|defer| panic::catch_unwind(AssertUnwindSafe(defer)));
        let is_deferred = matches!(done, Some(Ok(Some(_))));
        outcome = done;
        is_deferred
    };
    let mut act: Defer<'_> = &mut act;
    let at = (&raw mut act).cast::<Defer<'static>>();
    if DEFER.try_with(|current| current.set(Some(at))).is_ok() {
        call();
    }
    let _ = DEFER.try_with(Cell::take);
    match outcome {
        Some(Ok(done)) => done,
        Some(Err(panic)) => panic::resume_unwind(panic),
        // The thread ends, or nothing was announced.
        None => defer.take().and_then(|defer| defer()),
    }
}

/// What all announcing functions do.
pub extern "C" fn announced() -> u32 {
    let Some(at) = DEFER.try_with(Cell::take).ok().flatten() else { return NOT_DEFERRED };
    // SAFETY: `announcing` has left this there and does not return before.
    let defer = unsafe { &mut *at };
    if defer() { 0 } else { NOT_DEFERRED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::many_single_char_names, reason = "what is tested is their number")]
    extern "C" fn sum(a: u8, b: u64, c: i32, d: usize, e: u16, f: u32, g: u64, h: *const u8, i: u8) -> u64 {
        let small = u64::from(a) + b + u64::from(c.unsigned_abs()) + d as u64 + u64::from(e) + u64::from(f);
        small + g + h.addr() as u64 + u64::from(i) * 1000
    }

    extern "C" fn two(a: u64, b: u64) -> u64 {
        a * 10 + b
    }

    #[test]
    fn an_added_call_passes_all_words() {
        let at = std::ptr::without_provenance::<u8>(8);
        let words = [
            1_u8.word(),
            2_u64.word(),
            (-3_i32).word(),
            4_usize.word(),
            5_u16.word(),
            6_u32.word(),
            7_u64.word(),
            at.word(),
            9_u8.word(),
        ];
        // SAFETY: these functions take such words.
        let (all, few) =
            unsafe { (added_call(sum as *mut c_void, words), added_call(two as *mut c_void, [4, 2])) };
        assert_eq!((all, few), (9036, 42));
    }

    #[test]
    fn what_is_deferred_runs_within_the_announcing_function() {
        let mut said = None;
        let done = announcing(|| said = Some(announced()), || Some(7));
        assert_eq!((done, said), (Some(7), Some(0)));
        let done = announcing(|| said = Some(announced()), || None::<u8>);
        assert_eq!((done, said), (None, Some(NOT_DEFERRED)));
        assert_eq!(announced(), NOT_DEFERRED, "nothing is being deferred");
        assert_eq!(announcing(|| (), || Some(8)), Some(8), "without an announcement");
    }

    #[test]
    fn a_panic_comes_out_behind_the_announcing_function() {
        let mut said = None;
        let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
            announcing(|| said = Some(announced()), || -> Option<()> { panic!("on purpose") })
        }));
        assert!(panicked.is_err());
        assert_eq!(said, Some(NOT_DEFERRED));
    }
}
