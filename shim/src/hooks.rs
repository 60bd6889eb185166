//! What the shim does with a call before the real function gets it.
//!
//! One file a family; a line of the list names its hook by family and class. The order is always the same: re-entry
//! guard, arguments into types, safe code under `catch_unwind`, and then an [`Outcome`]. Hooks are safe code: the
//! unsafe steps are here and in [`crate::entry`].
//!
//! Every call is passed on at once as long as nothing is suspended: hooks only take notes. Otherwise [`crate::defer`]
//! decides.

use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_preload::env;

use crate::abi::{Args, Frame, HipError, Hooked, InRegister, Layout, Signature, Stream, replay};
use crate::api::{ApiFunction, Family, Id};
use crate::counters::{self, StreamKind, Trouble, Work};
use crate::defer::{self, Decision};
use crate::outcome::{Outcome, Reason};
use crate::reentry::ReentryGuard;
use crate::runtime::copies::{RuntimeCopy, Target};
use crate::runtime::stopped::{Stopped, StreamName};
use xsched_xqueue::{AdmissionAtOnce, JournalledLaunch};

pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod external;
pub(crate) mod graph;
pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod list;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod registration;
pub(crate) mod set;
pub(crate) mod stream;
pub(crate) mod synchronise;
pub(crate) mod texture;

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
        // SAFETY: the frame is of a call to this very function, and its caller has promised what the function
        // requires.
        S::Ret::from_word(unsafe { replay(self.frame, self.target.address, stack_words) })
    }

    /// Calls the real function, which makes an object and puts its handle where the first argument points. If it succeeds,
    /// `note` gets the handle.
    fn make(&self, note: impl FnOnce(&'static RuntimeCopy, usize)) -> Outcome<S::Ret> {
        let result = self.real();
        if let (Some(copy), 0) = (self.target.copy, result.into_word()) {
            let address = self.stopped().size(0) as *const usize;
            // SAFETY: the runtime has put the handle there, and says that it succeeded.
            note(copy, unsafe { address.read() });
        }
        Outcome::Done(result)
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

    /// The stream of a launch that names it in a structure: the fifth word, after grid, block and shared memory, in
    /// both `hipLaunchConfig_t` and `HIP_LAUNCH_CONFIG`.
    fn configured_stream(&self) -> Option<Stream> {
        if !matches!(self.function.id, Id::hipLaunchKernelExC | Id::hipDrvLaunchKernelEx) {
            return None;
        }
        let config = self.frame.general[0] as *const Stream;
        // SAFETY: the first argument, which the application makes as HIP requires.
        (!config.is_null()).then(|| unsafe { config.add(4).read() })
    }

    fn carry_out(&self, decision: Decision) -> Outcome<S::Ret> {
        match decision {
            Decision::Answer(result) => {
                counters::passed(Reason::Deferred);
                Outcome::Done(S::Ret::from_word(result.into_word()))
            }
            Decision::Pass(reason) => Outcome::Pass(reason),
            Decision::Make(mut followed) => {
                counters::passed(followed.reason);
                followed.prepare();
                // Functions whose calls are followed return an error code.
                let result = HipError(self.real().into_word() as u32);
                Outcome::Done(S::Ret::from_word(followed.finish(result).into_word()))
            }
        }
    }

    /// Makes a call that goes at once, and whose end is followed.
    fn follow(&self, launch: JournalledLaunch) -> Outcome<S::Ret> {
        counters::delayed();
        counters::passed(Reason::Scheduled);
        let result = self.real().into_word();
        defer::finish_at_once(launch, HipError(result as u32));
        Outcome::Done(S::Ret::from_word(result))
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

    /// Notes that the calling thread uses its own stream, if the call is for that.
    #[inline]
    fn note_own_stream(&self, kind: StreamKind) {
        if let (StreamKind::PerThread, Some(copy)) = (kind, self.target.copy) {
            defer::own_stream_used(copy);
        }
    }
}

/// Runs `hook` on a stopped call.
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
    let carry_out = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise.
        let args = unsafe { S::Args::read(frame, Layout::of::<S>()) };
        env::panic_if_asked(function.name);
        hook(&Call { function, target, frame, args })
    }));
    match carry_out {
        Ok(Outcome::Done(result)) => Outcome::Done(result.into_word()),
        Ok(Outcome::Pass(reason)) => Outcome::Pass(reason),
        Err(_) => {
            counters::trouble(Trouble::Panic);
            Outcome::Pass(Reason::Panicked)
        }
    }
}

/// A call of a function that is newer than the list: what it concerns is unknown.
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

/// What the deferrable calls of a family put on their stream.
pub(crate) fn work_of(family: Family) -> Option<Work> {
    Some(match family {
        Family::launch => Work::Kernel,
        Family::copy => Work::Copy,
        Family::set => Work::Fill,
        Family::graph => Work::Graph,
        Family::host => Work::HostFunction,
        Family::event => Work::Event,
        Family::stream | Family::external => Work::Signal,
        Family::memory => Work::Memory,
        _ => return None,
    })
}

/// A call that puts work on a stream.
fn submitted<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let kind = call.stream_kind();
    if let Some(work) = work_of(call.function.family) {
        counters::submitted(work, kind);
    }
    call.note_own_stream(kind);
    if defer::counts_calls() {
        defer::count_call(&call.stopped());
    }
    if !defer::is_engaged() {
        return Outcome::Pass(Reason::NotScheduled);
    }
    let stopped = call.stopped();
    if defer::passes_at_once(&stopped) {
        return Outcome::Pass(Reason::NotScheduled);
    }
    match defer::admit_at_once(&stopped) {
        Some(AdmissionAtOnce::Free) => return Outcome::Pass(Reason::NotScheduled),
        Some(AdmissionAtOnce::Followed(launch)) => return call.follow(launch),
        None => {}
    }
    counters::delayed();
    let outcome = call.carry_out(defer::submit(&stopped));
    if matches!(outcome, Outcome::Pass(Reason::NotScheduled)) {
        counters::not_delayed();
    }
    outcome
}

/// A call that needs earlier work to have been launched.
fn ordered<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    ordered_then(call, || ())
}

/// The same; `then` is done before the real function gets the call.
fn ordered_then<S: Hooked>(call: &Call<'_, S>, then: impl FnOnce()) -> Outcome<S::Ret> {
    call.note_own_stream(call.stream_kind());
    let decision = if defer::is_engaged() {
        defer::order(&call.stopped())
    } else {
        Decision::Pass(Reason::NothingDeferred)
    };
    then();
    call.carry_out(decision)
}

#[cfg(test)]
mod tests;
