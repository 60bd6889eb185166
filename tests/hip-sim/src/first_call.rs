//! The dispatch tables that the exported symbols jump through, and the first call, which activates them.
//!
//! ```text
//! active:     first-call table --(first call: offered to a tool, once)--> the table
//! ```
//!
//! The genuine runtime does the same work in the initializer of a function-local static
//! ([hip_api_trace.cpp](https://github.com/ROCm/clr/blob/fe70c0d6b08e/hipamd/src/hip_api_trace.cpp)). Other
//! threads wait until a tool is done with the table, so the tool misses none of their calls, and none sees a
//! partial patch. A call that the tool itself makes meanwhile goes through the table in its present state;
//! the genuine runtime would hang.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Once;

use crate::registration::{self, Offer};
use crate::{api, boundary, trampolines, version};

/// First release that passes its tables to tools.
const FIRST_RELEASE: i32 = 60_200_000;

/// The active table. The trampolines read it at each call, which on x86-64 is an acquire.
pub(crate) static ACTIVE_COMPILER: AtomicPtr<usize> =
    AtomicPtr::new((&raw const trampolines::FIRST_CALLS_COMPILER).cast_mut().cast());
/// See [`ACTIVE_COMPILER`].
pub(crate) static ACTIVE_RUNTIME: AtomicPtr<usize> =
    AtomicPtr::new((&raw const trampolines::FIRST_CALLS_RUNTIME).cast_mut().cast());

thread_local! {
    /// Whether this thread is offering a table to a tool.
    static IS_OFFERING: Cell<bool> = const { Cell::new(false) };
}

/// Activates a table if no other thread has, and returns its address. `number` is `api::COMPILER` or
/// `api::RUNTIME`.
pub(crate) extern "C" fn first_call(number: usize) -> *const () {
    static ONCE: [Once; 2] = [const { Once::new() }; 2];
    let (table, active, name) = if number == api::COMPILER {
        ((&raw const api::COMPILER_TABLE).cast_mut().cast::<usize>(), &ACTIVE_COMPILER, c"hip_compiler")
    } else {
        ((&raw const api::RUNTIME_TABLE).cast_mut().cast::<usize>(), &ACTIVE_RUNTIME, c"hip")
    };
    if !IS_OFFERING.get() {
        ONCE[number].call_once(|| {
            IS_OFFERING.set(true);
            boundary::value((), || offer(&Offer { name, table: table.cast() }));
            IS_OFFERING.set(false);
            // Publishes the tool's patches together with the table.
            active.store(table, Ordering::Release);
        });
    }
    table.cast_const().cast()
}

fn offer(offer: &Offer) {
    let release = version::release();
    if release >= FIRST_RELEASE {
        api::cut_tables_to(release);
        registration::offer(offer, release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::abi::hipError_t;

    /// Passed on the stack, as a seventh argument is.
    #[repr(C)]
    struct OnStack([usize; 3]);

    /// A function with every kind of argument passing.
    type AllKinds = extern "C" fn(usize, usize, usize, usize, usize, usize, f64, OnStack) -> usize;

    /// A function's entry in the table that is active before the first call.
    fn initial_entry(name: &str) -> usize {
        let index = api::RUNTIME_NAMES.iter().position(|known| *known == name).unwrap();
        // SAFETY: a constant of the assembly.
        unsafe { trampolines::FIRST_CALLS_RUNTIME[1 + index] }
    }

    #[test]
    fn first_calls_of_many_threads_succeed() {
        let entry = initial_entry("hipRuntimeGetVersion");
        // SAFETY: the function of this name has this type.
        let call: unsafe extern "C" fn(*mut i32) -> hipError_t = unsafe { core::mem::transmute(entry) };
        let together = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    let mut found = 0;
                    // SAFETY: a local out-parameter.
                    assert_eq!(unsafe { call(&raw mut found) }, 0);
                    assert_eq!(found, version::release());
                });
            }
        });
        let active = ACTIVE_RUNTIME.load(Ordering::Acquire).cast_const();
        assert_eq!(active, (&raw const api::RUNTIME_TABLE).cast());
    }

    #[test]
    fn a_first_call_keeps_every_argument() {
        extern "C" fn weigh(
            di: usize,
            si: usize,
            dx: usize,
            cx: usize,
            r8: usize,
            r9: usize,
            xmm0: f64,
            stack: OnStack,
        ) -> usize {
            let arguments = [di, si, dx, cx, r8, r9, xmm0 as usize].into_iter().chain(stack.0);
            arguments.fold(0, |number, digit| 10 * number + digit)
        }
        const NAME: &str = "hipHccModuleLaunchKernel";
        // SAFETY: the entry is `weigh` when it is called.
        let call: AllKinds = unsafe { core::mem::transmute(initial_entry(NAME)) };
        let genuine = api::replace_entry(NAME, weigh as *const ());
        let result = call(1, 2, 3, 4, 5, 6, 7.0, OnStack([8, 9, 0]));
        api::replace_entry(NAME, genuine);
        assert_eq!(result, 1_234_567_890);
    }
}
