//! Whether a gate works, found out by a stream of the shim's own. No look at it waits for the device.
//!
//! ```text
//!   on the stream       event | wait for the word | done
//!   Behind              what shares the hardware queue comes first, for as long as it takes
//!   Closed                    | the stream must not go on for a while
//!   Opened                                        | it must go on
//! ```

use xsched_protocol::arbiter_page::GATE_SIZE;
use xsched_sched::Nanos;
use xsched_xqueue::{GatePage, Tried, now};

use crate::abi::{Event, Stream};
use crate::hip::gate::HipGate;
use crate::hip::marker::HipStream;
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;

/// How long a waiting stream is watched.
const WATCHED: Nanos = Nanos::from_millis(1);

/// Looks are as far apart as this part of the time that it has taken so far, within bounds. Other streams wait behind the trial
/// until the look that opens it.
const LOOKS: u64 = 8;
const LOOK_SOONEST: Nanos = Nanos::from_micros(200);
const LOOK_LATEST: Nanos = Nanos::from_millis(10);

/// A gate that is being tried.
pub(crate) struct HipTrial {
    copy: &'static RuntimeCopy,
    device: i32,
    gate: HipGate,
    /// The word that is opened and closed for it: the arbiter may close the gate itself at any time.
    tried: HipGate,
    /// None: it is to begin.
    run: Option<Run>,
}

struct Run {
    stream: Stream,
    /// There from the beginning; None if the runtime gave none.
    event: Option<Event>,
    phase: Phase,
    since: Nanos,
}

// SAFETY: handles of the shim's own, which one thread at a time uses.
unsafe impl Send for Run {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Behind,
    Closed,
    /// What is the result once the stream is done.
    Opened(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Works,
    Refused,
    Undecided,
}

impl HipTrial {
    /// A gate for a stream's device, in the page or in signal memory. On a thread of the shim's own: it sets the device.
    pub(crate) fn new(
        HipStream { copy, device, .. }: HipStream,
        page: Option<&'static GatePage>,
    ) -> Option<Self> {
        if !real::has_wait_value(copy, device) {
            return None;
        }
        real::set_device(copy, device);
        let (gate, tried) = if let Some(page) = page {
            let on_device = real::register(copy, page.start(), GATE_SIZE)?;
            let within = |word| HipGate::within(page, word, on_device);
            (within(page.word()), within(page.trial()))
        } else {
            let host = real::signal_memory(copy)?;
            let gate = HipGate { host, device: host.cast() };
            (gate, gate)
        };
        tried.set(true);
        Some(Self { copy, device, gate, tried, run: None })
    }

    /// Goes on as far as that is possible without waiting. On a thread of the shim's own: it sets the device.
    pub(crate) fn look(&mut self) -> Tried<HipGate> {
        let Self { copy, tried, .. } = *self;
        let Some(run) = &mut self.run else {
            real::set_device(copy, self.device);
            self.run = Run::begin(copy, tried);
            return if self.run.is_some() { again_in(LOOK_SOONEST) } else { Tried::Refused };
        };
        let is_done = |run: &Run| real::is_stream_done(copy, run.stream);
        match run.phase {
            Phase::Behind if run.event.is_some_and(|event| real::is_event_pending(copy, event)) => {
                again_in(run.patience())
            }
            Phase::Behind => {
                run.enter(Phase::Closed);
                again_in(WATCHED)
            }
            Phase::Closed if now() < run.since + WATCHED => again_in(run.since + WATCHED - now()),
            Phase::Closed => {
                let outcome = match is_done(run) {
                    Some(true) => Outcome::Refused,
                    Some(false) => Outcome::Works,
                    None => Outcome::Undecided,
                };
                tried.set(true);
                run.enter(Phase::Opened(outcome));
                again_in(LOOK_SOONEST)
            }
            // A device with a fault never says that it is.
            Phase::Opened(_) if is_done(run) == Some(false) => again_in(run.patience()),
            Phase::Opened(outcome) => {
                run.destroy(copy);
                self.run = None;
                match outcome {
                    Outcome::Works => Tried::Works(self.gate),
                    Outcome::Refused => Tried::Refused,
                    Outcome::Undecided => Tried::Undecided,
                }
            }
        }
    }

    /// Has its stream go on, and others behind it. A store to memory.
    pub(crate) fn release(&mut self) {
        self.tried.set(true);
        if let Some(run) = &mut self.run
            && !matches!(run.phase, Phase::Opened(_))
        {
            run.enter(Phase::Opened(Outcome::Undecided));
        }
    }
}

impl Run {
    /// Puts the wait on a stream of the thread's device. None if there is no stream.
    fn begin(copy: &RuntimeCopy, tried: HipGate) -> Option<Self> {
        let stream = real::create_stream(copy)?;
        let event = real::create_event(copy);
        let is_recorded = event.is_some_and(|event| real::record_event(copy, event, stream));
        tried.set(false);
        let is_put = is_recorded && tried.put(copy, stream);
        let phase = if is_put { Phase::Behind } else { Phase::Opened(Outcome::Refused) };
        if !is_put {
            tried.set(true);
        }
        Some(Self { stream, event, phase, since: now() })
    }

    fn enter(&mut self, phase: Phase) {
        (self.phase, self.since) = (phase, now());
    }

    /// After what time to look again.
    fn patience(&self) -> Nanos {
        ((now() - self.since) / LOOKS).clamp(LOOK_SOONEST, LOOK_LATEST)
    }

    /// The stream is done: to destroy it does not wait.
    fn destroy(&mut self, copy: &RuntimeCopy) {
        real::destroy(copy, self.event.take(), self.stream);
    }
}

fn again_in(again: Nanos) -> Tried<HipGate> {
    Tried::Pending { again }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;
    use crate::api::Id;
    use crate::ground::reentry::stay_inside;
    use crate::runtime::copies::ORIGINALS;
    use crate::runtime::stopped::StreamName;

    const NOT_READY: u32 = 600;

    static WORD: AtomicU64 = AtomicU64::new(0);

    /// A runtime with one stream, and what was put there.
    #[derive(Default)]
    struct Runtime {
        has_backlog: bool,
        ignores_waits: bool,
        refuses_waits: bool,
        is_waiting: bool,
        /// How many objects there are, by the function that makes or destroys them.
        made: BTreeMap<&'static str, i32>,
    }

    thread_local! {
        static RUNTIME: RefCell<Runtime> = RefCell::default();
    }

    fn with<R>(act: impl FnOnce(&mut Runtime) -> R) -> R {
        RUNTIME.with(|runtime| act(&mut runtime.borrow_mut()))
    }

    fn count(what: &'static str, by: i32) -> u32 {
        with(|runtime| *runtime.made.entry(what).or_default() += by);
        0
    }

    extern "C" fn attribute(value: &mut i32, _: u32, _: i32) -> u32 {
        *value = 1;
        0
    }

    extern "C" fn signal_memory(word: &mut *const AtomicU64, _: usize, _: u32) -> u32 {
        *word = &raw const WORD;
        count("words", 1)
    }

    extern "C" fn set_device(_: i32) -> u32 {
        0
    }

    extern "C" fn create(_: *mut c_void, _: u32) -> u32 {
        count("streams", 1)
    }

    extern "C" fn create_event(_: *mut c_void, _: u32) -> u32 {
        count("events", 1)
    }

    extern "C" fn destroy(_: *mut c_void) -> u32 {
        assert_eq!(query(0), 0, "it would wait");
        count("streams", -1)
    }

    extern "C" fn destroy_event(_: *mut c_void) -> u32 {
        count("events", -1)
    }

    extern "C" fn record(_: usize, _: usize) -> u32 {
        0
    }

    extern "C" fn wait(_: usize) -> u32 {
        let code = with(|runtime| {
            runtime.is_waiting = !runtime.refuses_waits && !runtime.ignores_waits;
            u32::from(runtime.refuses_waits)
        });
        assert_eq!(WORD.load(Ordering::SeqCst), 0, "it is closed");
        code
    }

    extern "C" fn query_event(_: usize) -> u32 {
        if with(|runtime| runtime.has_backlog) { NOT_READY } else { 0 }
    }

    extern "C" fn query(_: usize) -> u32 {
        let is_busy = with(|runtime| {
            runtime.is_waiting &= WORD.load(Ordering::SeqCst) == 0;
            runtime.has_backlog || runtime.is_waiting
        });
        if is_busy { NOT_READY } else { 0 }
    }

    extern "C" fn no_error() -> u32 {
        0
    }

    /// A trial on a thread of its own, which is the shim's. No other test uses this copy.
    fn with_trial(runtime: Runtime, test: impl FnOnce(&mut HipTrial) + Send + 'static) {
        const COPY: usize = 2;
        let functions = [
            (Id::hipDeviceGetAttribute, attribute as *mut c_void),
            (Id::hipExtMallocWithFlags, signal_memory as *mut c_void),
            (Id::hipSetDevice, set_device as *mut c_void),
            (Id::hipStreamCreateWithFlags, create as *mut c_void),
            (Id::hipEventCreateWithFlags, create_event as *mut c_void),
            (Id::hipStreamDestroy, destroy as *mut c_void),
            (Id::hipEventDestroy, destroy_event as *mut c_void),
            (Id::hipEventRecord, record as *mut c_void),
            (Id::hipStreamWaitValue64, wait as *mut c_void),
            (Id::hipEventQuery, query_event as *mut c_void),
            (Id::hipStreamQuery, query as *mut c_void),
            (Id::hipPeekAtLastError, no_error as *mut c_void),
            (Id::hipGetLastError, no_error as *mut c_void),
        ];
        for (id, function) in functions {
            ORIGINALS[COPY][id as usize].store(function, Ordering::Release);
        }
        let tested = thread::spawn(move || {
            stay_inside();
            RUNTIME.set(runtime);
            let stream = HipStream { copy: RuntimeCopy::at(COPY), device: 0, name: StreamName::Created(1) };
            test(&mut HipTrial::new(stream, None).unwrap());
            let made = RUNTIME.take().made;
            assert_eq!(
                made,
                BTreeMap::from([("events", 0), ("streams", 0), ("words", 1)]),
                "nothing is lost"
            );
        });
        tested.join().unwrap();
    }

    /// Looks until it is decided.
    fn decided(trial: &mut HipTrial) -> Tried<HipGate> {
        loop {
            match trial.look() {
                Tried::Pending { .. } => thread::sleep(LOOK_SOONEST.into()),
                tried => return tried,
            }
        }
    }

    #[test]
    fn a_gate_is_judged_once_what_was_before_it_is_done_and_nothing_is_lost() {
        with_trial(Runtime { has_backlog: true, ..Runtime::default() }, |trial| {
            for _ in 0..100 {
                assert!(matches!(trial.look(), Tried::Pending { .. }));
            }
            with(|runtime| runtime.has_backlog = false);
            assert!(matches!(decided(trial), Tried::Works(_)));
            assert_eq!(WORD.load(Ordering::SeqCst), super::super::OPEN);
        });
    }

    #[test]
    fn a_runtime_that_refuses_a_wait_or_does_not_wait_has_no_gate_and_nothing_is_lost() {
        for (refuses_waits, ignores_waits) in [(true, false), (false, true)] {
            with_trial(Runtime { ignores_waits, refuses_waits, ..Runtime::default() }, |trial| {
                assert!(matches!(decided(trial), Tried::Refused));
            });
        }
    }

    #[test]
    fn a_released_trial_holds_up_nothing_and_begins_again() {
        with_trial(Runtime { has_backlog: true, ..Runtime::default() }, |trial| {
            assert!(matches!(trial.look(), Tried::Pending { .. }));
            trial.release();
            assert!(matches!(trial.look(), Tried::Pending { .. }), "a stream is destroyed when it is done");
            with(|runtime| runtime.has_backlog = false);
            assert_eq!(query(0), 0);
            assert!(matches!(trial.look(), Tried::Undecided));
            assert!(matches!(decided(trial), Tried::Works(_)));
        });
    }
}
