//! What the shim does with a call before the real function gets it.
//!
//! One file a family; a line of the list names its hook by family and class. The order is always the same:
//! re-entry guard, arguments into types, safe code under `catch_unwind`, and then an [`Outcome`]. Hooks are
//! safe code: the unsafe steps are here and in the gate.
//!
//! Every call is passed on at once as long as nothing schedules: hooks keep books only. A scheduler takes its
//! place behind [`submitted`], [`ordered`] and [`capture`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{Args, InRegister, Layout, Ret, Signature};
use crate::api::ApiFunction;
use crate::counters::{self, StreamKind, Trouble, Work, counted};
use crate::env;
use crate::gate::Frame;
use crate::instances::Target;
use crate::replay::replay;

pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod external;
pub(crate) mod graph;
pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod registration;
pub(crate) mod set;
pub(crate) mod stream;
pub(crate) mod synchronise;
pub(crate) mod texture;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<R> {
    /// The call is over for the caller, with this result.
    Done(R),
    /// The real function gets the call, untouched, on the caller's thread.
    Pass(Reason),
}

counted! {
    /// Why the real function got a call at once.
    Reason {
        /// Nothing schedules this process: work goes straight to its stream.
        NotScheduled = "nothing schedules",
        /// The call needs earlier work to be on its way, and none is held back.
        NothingHeldBack = "nothing held back",
        /// The function is newer than the list.
        UnknownFunction = "unknown function",
        /// The call controls or observes stream capture, which the shim keeps out of.
        StreamCapture = "stream capture",
        /// The runtime called its own API.
        RuntimeInternal = "inside the runtime",
        /// This thread is already inside a hook.
        Reentered = "inside a hook",
        /// This thread is ending and its thread-local state is gone.
        ThreadEnding = "thread ending",
        /// The hook panicked.
        Panicked = "hook panicked",
        /// `XSCHED_DISABLE` is set.
        Disabled = "disabled",
    }
}

/// One call, as its hook sees it.
pub(crate) struct Call<'a, S: Signature> {
    function: &'static ApiFunction,
    target: Target,
    frame: &'a Frame,
    args: S::Args,
}

impl<S: Signature<Ret: InRegister>> Call<'_, S> {
    /// Calls the real function, with the arguments that the caller gave.
    fn real(&self) -> S::Ret {
        let stack_words = const { Layout::of::<S>().stack_words };
        // SAFETY: the frame is of a call to this very function, whose caller promised what the function asks for.
        S::Ret::from_word(unsafe { replay(self.frame, self.target.address, stack_words) })
    }
}

impl<S: Signature> Call<'_, S> {
    /// The kind of stream that the call names; a call without a stream means the null stream.
    fn stream_kind(&self) -> StreamKind {
        match self.args.stream().map_or(0, |stream| stream.0.addr()) {
            0 if self.function.null_stream_is_per_thread => StreamKind::PerThread,
            0 | 1 => StreamKind::Legacy,
            2 => StreamKind::PerThread,
            _ => StreamKind::Created,
        }
    }
}

thread_local! {
    static INSIDE_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a hook.
pub(crate) fn inside_hook() -> bool {
    INSIDE_HOOK.try_with(Cell::get).unwrap_or(false)
}

/// While it lives, HIP calls of this thread are passed on without a hook.
struct ReentryGuard(());

impl ReentryGuard {
    fn enter() -> Result<Self, Reason> {
        match INSIDE_HOOK.try_with(|inside| inside.replace(true)) {
            Ok(false) => Ok(Self(())),
            Ok(true) => Err(Reason::Reentered),
            Err(_) => Err(Reason::ThreadEnding),
        }
    }
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        // If the thread-local is gone by now, nobody can ask for it any more.
        let _ = INSIDE_HOOK.try_with(|inside| inside.set(false));
    }
}

/// Runs `hook` on a call that the gate has stopped.
///
/// # Safety
/// `frame` must be of a call to `function`, and `function` must have the signature `S`.
pub(crate) unsafe fn run<S: Signature<Ret: InRegister>>(
    function: &'static ApiFunction,
    frame: &Frame,
    target: Target,
    hook: fn(&Call<'_, S>) -> Outcome<S::Ret>,
) -> Outcome<u64> {
    let _guard = match ReentryGuard::enter() {
        Ok(guard) => guard,
        Err(reason) => return Outcome::Pass(reason),
    };
    let decided = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise.
        let args = unsafe { S::Args::read(frame, S::Ret::PASSED) };
        env::panic_if_asked(function.name);
        hook(&Call { function, target, frame, args })
    }));
    match decided {
        Ok(Outcome::Done(result)) => Outcome::Done(result.into_word()),
        Ok(Outcome::Pass(reason)) => Outcome::Pass(reason),
        Err(_) => {
            counters::trouble(Trouble::Panic);
            Outcome::Pass(Reason::Panicked)
        }
    }
}

/// A call of a function that is newer than the list.
pub(crate) fn unknown(_: Target) -> Outcome<u64> {
    Outcome::Pass(Reason::UnknownFunction)
}

/// A call that puts work on a stream.
fn submitted<S: Signature>(work: Work, call: &Call<'_, S>) -> Outcome<S::Ret> {
    counters::submitted(work, call.stream_kind());
    Outcome::Pass(Reason::NotScheduled)
}

/// A call that needs earlier work to have been forwarded.
fn ordered<S: Signature>(_: &Call<'_, S>) -> Outcome<S::Ret> {
    Outcome::Pass(Reason::NothingHeldBack)
}

/// A call that controls or observes stream capture.
fn capture<S: Signature>(_: &Call<'_, S>) -> Outcome<S::Ret> {
    Outcome::Pass(Reason::StreamCapture)
}

#[cfg(test)]
mod tests;
