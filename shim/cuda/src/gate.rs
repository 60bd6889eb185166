//! Gates: words of memory that a stream waits for (`cuStreamWaitValue32`), which the arbiter or the host opens and closes, and the
//! trial that finds out whether a gate works. No look at a trial waits for the device.
//!
//! ```text
//!   on the stream       event | wait for the word | done
//!   Behind              what shares the hardware queue comes first, for as long as it takes
//!   Closed                    | the stream must not go on for a while
//!   Opened                                        | it must go on
//! ```
//!
//! The word lies in the arbiter's page, which is registered with the driver. Where the driver refuses that, it lies in memory of the
//! driver's, and the process closes the gate itself.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_protocol::arbiter_page::{GATE_KEPT_OPEN, GATE_OPEN, GATE_SIZE};
use xsched_sched::Nanos;
use xsched_xqueue::{GatePage, Tried, now};

use crate::counters::{Counter, count};
use crate::driver::{self, Context, Event};
use crate::marker::CudaStream;

const CLOSED: u64 = 0;
const OPEN: u64 = GATE_KEPT_OPEN;

// The driver compares the word's lower half with 1, as signed numbers.
const _: () = assert!(GATE_OPEN < 1 << 31 && cfg!(target_endian = "little"));

/// How long a waiting stream is watched.
const WATCHED: Nanos = Nanos::from_millis(1);

/// Looks are as far apart as this part of the time that it has taken so far, within bounds. Other streams may wait behind the trial
/// until the look that opens it.
const LOOKS: u64 = 8;
const LOOK_SOONEST: Nanos = Nanos::from_micros(200);
const LOOK_LATEST: Nanos = Nanos::from_millis(10);

/// A word of memory that is never freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CudaGate {
    host: NonNull<AtomicU64>,
    /// Its address on the device.
    device: u64,
}

// SAFETY: an atomic word that any thread may use.
unsafe impl Send for CudaGate {}

impl CudaGate {
    /// A word of a page whose address on the device is given.
    fn within(page: &'static GatePage, word: &'static AtomicU64, start: u64) -> Self {
        let host = NonNull::from(word);
        let offset = host.addr().get() - page.start().addr().get();
        Self { host, device: start + offset as u64 }
    }

    pub(crate) fn set(self, is_open: bool) {
        // SAFETY: mapped or allocated for good.
        let word = unsafe { self.host.as_ref() };
        word.store(if is_open { OPEN } else { CLOSED }, Ordering::Release);
    }

    /// Makes a stream wait for the gate. False if the driver refuses.
    pub(crate) fn put_before(self, stream: CudaStream) -> bool {
        driver::within(stream.context, || Some(driver::wait_value(stream.handle(), self.device)))
            .unwrap_or(false)
    }
}

/// A gate that is being tried.
pub(crate) struct CudaTrial {
    context: Context,
    is_shared: bool,
    gate: CudaGate,
    /// The word that is opened and closed for it: the arbiter may close the gate itself at any time.
    tried: CudaGate,
    /// None: it is to begin.
    run: Option<Run>,
}

struct Run {
    stream: usize,
    /// There from the beginning; None if the driver gave none.
    event: Option<Event>,
    phase: Phase,
    since: Nanos,
}

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

impl CudaTrial {
    /// A gate for a stream's context, in the page or in memory of the driver's.
    pub(crate) fn new(
        CudaStream { context, .. }: CudaStream,
        page: Option<&'static GatePage>,
    ) -> Option<Self> {
        let (gate, tried) = driver::within(context, || {
            let Some(page) = page else {
                let (host, device) = driver::allocate(size_of::<AtomicU64>())?;
                let gate = CudaGate { host: host.cast(), device };
                return Some((gate, gate));
            };
            let start = driver::register(page.start(), GATE_SIZE);
            if start.is_none() {
                count(Counter::RefusedPage);
            }
            let within = |word, start| CudaGate::within(page, word, start);
            Some((within(page.word(), start?), within(page.trial(), start?)))
        })?;
        tried.set(true);
        Some(Self { context, is_shared: page.is_some(), gate, tried, run: None })
    }

    /// Goes on as far as that is possible without waiting.
    pub(crate) fn look(&mut self) -> Tried<CudaGate> {
        driver::within(self.context, || Some(self.look_within())).unwrap_or(Tried::Refused)
    }

    fn look_within(&mut self) -> Tried<CudaGate> {
        let tried = self.tried;
        let Some(run) = &mut self.run else {
            self.run = Run::begin(tried);
            return if self.run.is_some() { again_in(LOOK_SOONEST) } else { Tried::Refused };
        };
        let is_done = |run: &Run| driver::is_stream_done(run.stream);
        match run.phase {
            Phase::Behind if run.event.is_some_and(driver::is_pending) => again_in(run.patience()),
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
                run.destroy();
                self.run = None;
                self.judge(outcome)
            }
        }
    }

    fn judge(&self, outcome: Outcome) -> Tried<CudaGate> {
        match outcome {
            Outcome::Works => {
                count(if self.is_shared { Counter::SharedGate } else { Counter::OwnGate });
                Tried::Works(self.gate)
            }
            Outcome::Refused => {
                count(Counter::FailedTrial);
                Tried::Refused
            }
            Outcome::Undecided => Tried::Undecided,
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
    /// Puts the wait on a stream of the current context. None if there is no stream.
    fn begin(tried: CudaGate) -> Option<Self> {
        let stream = driver::create_stream()?;
        let event = driver::create_event();
        let is_recorded = event.is_some_and(|event| driver::record(event, stream));
        tried.set(false);
        let is_put = is_recorded && driver::wait_value(stream, tried.device);
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
    fn destroy(&mut self) {
        if let Some(event) = self.event.take() {
            driver::destroy_event(event);
        }
        driver::destroy_stream(self.stream);
    }
}

fn again_in(again: Nanos) -> Tried<CudaGate> {
    Tried::Pending { again }
}
