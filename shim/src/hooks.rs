//! What the shim does with a call before the real function gets it.
//!
//! One file a family; a line of the list names its hook by family and class. The order is always the same:
//! re-entry guard, arguments into types, safe code under `catch_unwind`, and then an [`Outcome`]. Hooks are
//! safe code: the unsafe steps are here and in the gate.
//!
//! Every call is passed on at once as long as nothing is suspended: hooks keep books only. Else [`crate::defer`] decides.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{Args, HipError, Hooked, InRegister, Layout, Signature, Stream};
use crate::api::{ApiFunction, Id};
use crate::counters::{self, StreamKind, Trouble, Work, counted};
use crate::defer::{self, Decision, Stopped, StreamName};
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
    /// Why the real function got a call at once, or when else.
    Reason {
        /// The call was held back and answered by the shim.
        HeldBack = "held back",
        /// The call could not be made later: its caller waited until it was its turn.
        WaitedInPlace = "waited in place",
        /// The call needed earlier work to be on its way, and waited for it.
        Drained = "waited for what was held back",
        /// Others use the device too, and the call may go.
        Scheduled = "beside others",
        /// The call is never suspended.
        NeverSuspended = "never suspended",
        /// The call passes through.
        PassedThrough = "passed through",
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

impl<S: Hooked> Call<'_, S> {
    /// Calls the real function, with the arguments that the caller gave.
    fn real(&self) -> S::Ret {
        let stack_words = Layout::of::<S>().stack_words;
        // SAFETY: the frame is of a call to this very function, whose caller promised what the function asks for.
        S::Ret::from_word(unsafe { replay(self.frame, self.target.address, stack_words) })
    }

    /// This call for code that does not know its types.
    fn stopped(&self) -> Stopped<'_> {
        Stopped {
            function: self.function,
            frame: self.frame,
            layout: Layout::of::<S>(),
            target: self.target,
            stream: self.stream(),
        }
    }

    /// The stream of a launch that names it in a structure: its fifth word, after grid, block and shared memory, in
    /// both `hipLaunchConfig_t` and `HIP_LAUNCH_CONFIG`.
    fn configured_stream(&self) -> Option<Stream> {
        if !matches!(self.function.id, Id::hipLaunchKernelExC | Id::hipDrvLaunchKernelEx) {
            return None;
        }
        let config = self.frame.general[0] as *const Stream;
        // SAFETY: the first argument, which the application makes what HIP asks for.
        (!config.is_null()).then(|| unsafe { config.add(4).read() })
    }

    fn decided(&self, decision: Decision) -> Outcome<S::Ret> {
        match decision {
            Decision::Answer(result) => {
                counters::passed(Reason::HeldBack);
                Outcome::Done(S::Ret::from_word(result.into_word()))
            }
            Decision::Pass(reason) => Outcome::Pass(reason),
            Decision::Make(followed) => {
                counters::passed(followed.reason);
                followed.prepare();
                // What is followed returns an error code.
                let result = HipError(self.real().into_word() as u32);
                Outcome::Done(S::Ret::from_word(followed.finish(result).into_word()))
            }
        }
    }

    /// The stream that the call names, in an argument or a structure.
    #[inline]
    fn stream(&self) -> Option<Stream> {
        self.args.stream().or_else(|| self.configured_stream())
    }

    /// The kind of stream that the call names; a call without a stream means the null stream.
    #[inline]
    fn stream_kind(&self) -> StreamKind {
        match StreamName::of(self.function, self.stream()) {
            StreamName::Legacy => StreamKind::Legacy,
            StreamName::PerThread => StreamKind::PerThread,
            StreamName::Created(_) => StreamKind::Created,
        }
    }
}

thread_local! {
    static INSIDE_HOOK: Cell<bool> = const { Cell::new(false) };
    static IS_SHIMS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a hook.
pub(crate) fn inside_hook() -> bool {
    INSIDE_HOOK.try_with(Cell::get).unwrap_or(false)
}

/// HIP calls of this thread, which is the shim's own, are passed on without a hook from now on.
pub(crate) fn stay_inside() {
    let _ = INSIDE_HOOK.try_with(|inside| inside.set(true));
    let _ = IS_SHIMS.try_with(|is_shims| is_shims.set(true));
}

/// Whether this thread is the shim's own: nobody reads the errors that it leaves with the runtime.
pub(crate) fn is_shims_thread() -> bool {
    IS_SHIMS.try_with(Cell::get).unwrap_or(false)
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
pub(crate) unsafe fn run<S: Hooked>(
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
        let args = unsafe { S::Args::read(frame, Layout::of::<S>()) };
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

/// A call of a function that is newer than the list: nobody knows what it concerns.
pub(crate) fn unknown() -> Outcome<u64> {
    let _guard = match ReentryGuard::enter() {
        Ok(guard) => guard,
        Err(reason) => return Outcome::Pass(reason),
    };
    if defer::is_engaged() && catch_unwind(defer::drain).is_err() {
        counters::trouble(Trouble::Panic);
    }
    Outcome::Pass(Reason::UnknownFunction)
}

/// A call that puts work on a stream.
fn submitted<S: Hooked>(work: Work, call: &Call<'_, S>) -> Outcome<S::Ret> {
    counters::submitted(work, call.stream_kind());
    if !defer::is_engaged() {
        return Outcome::Pass(Reason::NotScheduled);
    }
    let stopped = call.stopped();
    if defer::goes_by(&stopped) {
        return Outcome::Pass(Reason::NotScheduled);
    }
    counters::held_up();
    let outcome = call.decided(defer::submit(&stopped));
    if matches!(outcome, Outcome::Pass(Reason::NotScheduled)) {
        counters::not_held_up();
    }
    outcome
}

/// A call that needs earlier work to have been launched.
fn ordered<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    ordered_then(call, || ())
}

/// The same; `then` is done before the real function gets the call.
fn ordered_then<S: Hooked>(call: &Call<'_, S>, then: impl FnOnce()) -> Outcome<S::Ret> {
    let decision = if defer::is_engaged() {
        defer::order(&call.stopped())
    } else {
        Decision::Pass(Reason::NothingHeldBack)
    };
    then();
    call.decided(decision)
}

#[cfg(test)]
mod tests;
