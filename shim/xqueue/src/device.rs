//! What queues ask of a runtime's devices: the contract of a back end. `shim/src/hip` is the one for HIP, `shim/cuda` the one for CUDA.
//!
//! # Rules for every function
//!
//! * **Threads.** Functions are called from the application's threads, from launch workers and from the watcher, at the same
//!   time. Launch workers and the watcher are threads of this crate ([`crate::threads`]). A back end that hooks the runtime must
//!   not take their calls for the application's (see [`crate::Host::enter`] for the watcher).
//! * **Locks.** The table says which of the crate's locks the caller holds. *None* means that the function may call the queues.
//!   Under the *queues' lock* (see the table) it must not call the queues or the runtime, and must not wait for any other thread.
//!   The *markers' lock* keeps
//!   [`crate::XQueues::pause_markers`], `destroy`, `detach_stream`, `forget_detached` and `close` waiting. The *lock for making
//!   gates* keeps `pause_markers`, `retire_gates` and `close` waiting. A thread that waits in one of these must not hold
//!   anything that the function needs.
//! * **Panics.** A function that panics ends the thread that calls it: that may be the application's. Back ends catch their own.
//!
//! | function | called on | lock held | may block |
//! | --- | --- | --- | --- |
//! | `stream_number`, `orders_others`, `is_ordered`, `runtime` | any thread | queues' | no |
//! | `launch` | launch worker | none | yes |
//! | `measures` | thread that launches | none | no |
//! | `mark` | any thread | markers' | only as a call of the runtime does |
//! | `is_done` | any thread | markers' | no |
//! | `is_complete`, `time_between` | any thread | markers' | no |
//! | `retire` | any thread | markers', or none | no |
//! | `make_gate`, `look_at_trial` | watcher | for making gates | only as a call of the runtime does |
//! | `release_trial` | any thread | queues' | no |
//! | `put_gate` | thread that launches | none | only as a call of the runtime does |
//! | `set_gate` | any thread | queues' | no |

use std::fmt::Debug;

use xsched_sched::{Limit, Nanos};

use crate::gate_page::GatePage;
use crate::ids::RuntimeId;

/// What a look at a trial has found.
#[derive(Clone, Copy, Debug)]
pub enum Tried<G> {
    /// Nothing yet.
    Pending {
        /// After what time to look again.
        again: Nanos,
    },
    /// Streams wait at the gate, and go on when it opens. The gate is open.
    Works(G),
    /// Streams do not wait there, or the runtime refuses.
    Refused,
    /// The trial was released before it was decided, and left nothing on the device. It may begin again.
    Undecided,
}

impl Tried<()> {
    /// The same result for a gate.
    pub fn of<G>(self, gate: G) -> Tried<G> {
        match self {
            Self::Pending { again } => Tried::Pending { again },
            Self::Works(()) => Tried::Works(gate),
            Self::Refused => Tried::Refused,
            Self::Undecided => Tried::Undecided,
        }
    }
}

/// Where commands are launched: the devices of one runtime.
///
/// See the [module's documentation](self) for threads, locks and blocking. Errors are never fatal: each function says what its
/// failure means for the queues.
pub trait Device: Send + Sync + 'static {
    /// A command with everything that it needs to be launched later, on any thread. Dropped without being launched only if
    /// [`crate::XQueues::submit`] gives it back, or when the process ends.
    type Command: Send + 'static;

    /// A stream of the runtime. A value may outlive the stream: after [`crate::XQueues::destroy`] or
    /// [`crate::XQueues::detach_stream`] has returned, only functions that say so are called with it.
    type Stream: Copy + Debug + Send + 'static;

    /// A point in the order of a stream, such as a recorded event. Each is given to [`Device::retire`] once.
    type Marker: Copy + Debug + Eq + Send + 'static;

    /// A gate: a word in memory for which streams of one runtime can wait. One is made for each device and runtime, and never
    /// freed.
    type Gate: Copy + Debug + Send + 'static;

    /// A gate under trial, with what the trial needs.
    type Trial: Send + 'static;

    /// How often a page is mapped. A runtime that lets each range of memory be registered only once needs a mapping for each
    /// context with gates.
    const GATE_MAPPINGS: usize = 1;

    /// The runtime waits in the call that destroys a stream until the stream is done.
    const DESTROY_WAITS: bool = false;

    /// How much work may follow a command before the next gate. Preempted work takes this much longer to stop. Each gate costs some
    /// time on the device and on the launching thread.
    const GATE_EVERY: Nanos = Nanos::from_micros(10);

    /// The same where a claim is preempted often.
    const GATE_EVERY_LEAST: Nanos = Nanos(Self::GATE_EVERY.0 / 2);

    /// In between, the work before the next gate is this part of the time between two preemptions. So preempted work runs on for at
    /// most this part of the time.
    const GATES_FOR_PREEMPTION: u64 = 10_000;

    /// What may be launched ahead behind a gate that the arbiter closes in the moment in which urgent work comes.
    const GATED: Limit = Limit::GATED;

    /// The number that names a stream in events. Must not change while the stream lives.
    fn stream_number(&self, stream: Self::Stream) -> u64;

    /// Whether a command in a stream begins after all work that other streams have by then, and those streams wait for it, as
    /// with HIP's null stream. A marker in such a stream delays others. While streams exist that it orders, [`Device::is_done`] is not
    /// called for it. Asked once, when the queue is created.
    fn orders_others(&self, _stream: Self::Stream) -> bool {
        false
    }

    /// Whether a stream of the same runtime that orders others orders this one, too. Asked once, when the queue is created.
    fn is_ordered(&self, _stream: Self::Stream) -> bool {
        true
    }

    /// The runtime copy of a stream. What was made with one copy cannot be used with another.
    fn runtime(&self, _stream: Self::Stream) -> RuntimeId {
        RuntimeId::default()
    }

    /// Gives a command to the runtime.
    ///
    /// Called in each queue's order, by one thread at a time for each queue. Commands of other queues may be launched at the same
    /// time. It may block for any time: after 10 ms, other workers take over the other queues. The command's stream exists. The
    /// thread's current device is what its last launch has left.
    ///
    /// False if the runtime refused the command: then it counts as never launched. The back end tells the application.
    fn launch(&self, command: Self::Command) -> bool;

    /// Records a marker behind everything that was given to a stream. The stream exists.
    ///
    /// It must not change what the application sees of the stream, except that the stream is busy until the marker is complete.
    /// None if that fails: the commands before it are then found complete by a later marker or by [`Device::is_done`]. Commands
    /// of a stream without a queue are no longer followed then.
    fn mark(&self, stream: Self::Stream) -> Option<Self::Marker>;

    /// Whether everything that was given to a stream has completed. Leaves the stream as it is.
    ///
    /// None if the device cannot tell, as while the stream is captured or after an error: the queue's commands in flight are no
    /// longer followed then. The stream exists.
    fn is_done(&self, stream: Self::Stream) -> Option<bool>;

    /// Whether everything before a marker has completed. A device that fails answers true: no marker may stay pending for ever.
    /// The marker's stream may be gone.
    fn is_complete(&self, marker: Self::Marker) -> bool;

    /// The device's time from one complete marker to another of the same stream. None if it does not know: the host's clock
    /// is used then.
    fn time_between(&self, earlier: Self::Marker, later: Self::Marker) -> Option<Nanos>;

    /// Whether [`Device::time_between`] usually knows the time. Then a few launches a second get markers before and behind them.
    fn measures(&self) -> bool {
        true
    }

    /// Retires a marker, complete or not: the queues have no more use for it. The marker's stream may be gone.
    fn retire(&self, marker: Self::Marker);

    /// Makes a gate for a stream's device and runtime, to be tried. Its word is in a page that the arbiter writes, too, or in
    /// memory of the device's own. None if there are no gates of that kind. The stream may be gone: it only names the device. The
    /// page stays mapped as long as the process lives, since the device may read it at any time. Not called while markers are
    /// paused.
    fn make_gate(&self, stream: Self::Stream, page: Option<&'static GatePage>) -> Option<Self::Trial>;

    /// Looks whether streams wait at a gate while it is closed, and go on when it opens. Begins a trial that has not begun or was
    /// undecided. Must not wait for the device, which may have other work first. Not called while markers are paused.
    fn look_at_trial(&self, trial: &mut Self::Trial) -> Tried<Self::Gate>;

    /// Lets streams go on that wait because of a trial. If the trial is not decided by now, it is undecided. A store to memory.
    fn release_trial(&self, trial: &mut Self::Trial);

    /// Puts a gate before what is given to a stream next. Called right before the launch, on its thread. The stream exists.
    ///
    /// False if that fails: the command is launched all the same, and merely cannot be kept from beginning. The gate is not used
    /// again.
    fn put_gate(&self, gate: Self::Gate, stream: Self::Stream) -> bool;

    /// Opens or closes a gate in memory of the device's own. A store to memory; it cannot fail. Gates in a page are opened and
    /// closed there.
    fn set_gate(&self, gate: Self::Gate, is_open: bool);
}
