//! Trials: whether a gate works, as a stream of the back end's own shows. No look at a trial waits for the device.
//!
//! ```text
//!   on the stream       event | wait for the word | done
//!   Behind              what shares the hardware queue comes first, for as long as it takes
//!   Closed                    | the stream must not go on for a while
//!   Opened                                        | it must go on
//! ```

use xsched_sched::Nanos;

use crate::clock::now;
use crate::device::Tried;

/// How long the stream is watched while it must wait, and while it must go on.
const WATCHED: Nanos = Nanos::from_millis(1);

/// The time between looks, as a part of the time that the trial has taken so far. Other streams wait behind the trial until the
/// look that opens it.
const LOOKS: u64 = 8;
const LOOK_SOONEST: Nanos = Nanos::from_micros(200);
const LOOK_LATEST: Nanos = Nanos::from_millis(10);

/// A gate to try, and the runtime's functions that a trial needs.
pub trait TriedGate {
    /// A stream of the back end's own, with an event if the runtime gave one.
    type Stream;

    /// Opens or closes the word of the trial. It is not the gate's word, which the arbiter may close at any time. A store to
    /// memory.
    fn set(&self, is_open: bool);

    /// Whether the word of the trial is open. The guard may have opened it.
    fn is_open(&self) -> bool;

    /// A new stream. None if the runtime gives none.
    fn create_stream(&self) -> Option<Self::Stream>;

    /// Records the stream's event. False if there is none, or the runtime refuses.
    fn record(&self, stream: &Self::Stream) -> bool;

    /// Makes the stream wait for the word. False if the runtime refuses.
    fn wait(&self, stream: &Self::Stream) -> bool;

    /// Whether the event is recorded and not complete.
    fn is_pending(&self, stream: &Self::Stream) -> bool;

    /// Whether the stream is done. None if the runtime cannot tell.
    fn is_done(&self, stream: &Self::Stream) -> Option<bool>;

    /// Destroys stream and event. The stream is done, so that does not wait.
    fn destroy(&self, stream: Self::Stream);
}

/// A gate that is being tried.
#[derive(Debug)]
pub struct Trial<G: TriedGate> {
    gate: G,
    /// None: the trial has not begun.
    run: Option<Run<G::Stream>>,
}

#[derive(Debug)]
struct Run<S> {
    stream: S,
    phase: Phase,
    since: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Behind,
    Closed,
    /// The outcome, which holds once the stream is done.
    Opened(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Works,
    Refused,
    Undecided,
}

impl<G: TriedGate> Trial<G> {
    /// A trial of this gate. The gate stays open until the first look.
    pub fn new(gate: G) -> Self {
        gate.set(true);
        Self { gate, run: None }
    }

    /// Takes the next step if that is possible without waiting.
    pub fn look(&mut self) -> Tried<()> {
        let Self { gate, run } = self;
        let Some(current) = run else {
            *run = Run::begin(gate);
            return if run.is_some() { again_in(LOOK_SOONEST) } else { Tried::Refused };
        };
        if !matches!(current.phase, Phase::Opened(_)) && gate.is_open() {
            current.enter(Phase::Opened(Outcome::Undecided));
        }
        match current.phase {
            Phase::Behind if gate.is_pending(&current.stream) => again_in(current.patience()),
            Phase::Behind => {
                current.enter(Phase::Closed);
                again_in(WATCHED)
            }
            Phase::Closed if now() < current.since + WATCHED => again_in(current.since + WATCHED - now()),
            Phase::Closed => {
                let outcome = match gate.is_done(&current.stream) {
                    Some(true) => Outcome::Refused,
                    Some(false) => Outcome::Works,
                    None => Outcome::Undecided,
                };
                gate.set(true);
                current.enter(Phase::Opened(outcome));
                again_in(LOOK_SOONEST)
            }
            // A device with a fault never says that the stream is done.
            Phase::Opened(_) if gate.is_done(&current.stream) == Some(false) => again_in(current.patience()),
            Phase::Opened(outcome) => {
                if let Some(over) = run.take() {
                    gate.destroy(over.stream);
                }
                match outcome {
                    Outcome::Works => Tried::Works(()),
                    Outcome::Refused => Tried::Refused,
                    Outcome::Undecided => Tried::Undecided,
                }
            }
        }
    }

    /// Lets the trial's stream go on, and other streams behind it. A store to memory.
    pub fn release(&mut self) {
        self.gate.set(true);
        if let Some(run) = &mut self.run
            && !matches!(run.phase, Phase::Opened(_))
        {
            run.enter(Phase::Opened(Outcome::Undecided));
        }
    }
}

impl<S> Run<S> {
    /// Puts the wait on a new stream. None if the runtime gives no stream.
    fn begin<G: TriedGate<Stream = S>>(gate: &G) -> Option<Self> {
        let stream = gate.create_stream()?;
        let is_recorded = gate.record(&stream);
        gate.set(false);
        let is_put = is_recorded && gate.wait(&stream);
        let phase = if is_put { Phase::Behind } else { Phase::Opened(Outcome::Refused) };
        if !is_put {
            gate.set(true);
        }
        Some(Self { stream, phase, since: now() })
    }

    fn enter(&mut self, phase: Phase) {
        (self.phase, self.since) = (phase, now());
    }

    /// After what time to look again.
    fn patience(&self) -> Nanos {
        ((now() - self.since) / LOOKS).clamp(LOOK_SOONEST, LOOK_LATEST)
    }
}

fn again_in(again: Nanos) -> Tried<()> {
    Tried::Pending { again }
}
