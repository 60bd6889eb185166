//! What queues ask of a device: launch this, mark that, hold this up. HIP is the one implementation.

use std::fmt::Debug;

use xsched_sched::Nanos;

use crate::queues::GatePage;

/// Where commands go.
pub trait Device: Send + Sync + 'static {
    /// A command with everything that it needs.
    type Command: Send + 'static;

    /// A hardware's queue, as far as markers need it.
    type Stream: Copy + Debug + Send + 'static;

    /// A point in the order of a stream.
    type Marker: Copy + Debug + Eq + Send + 'static;

    /// What holds up a hardware's queue while it is shut.
    type Gate: Copy + Debug + Send + 'static;

    /// What names a stream in events.
    fn stream_number(&self, stream: Self::Stream) -> u64;

    /// Whether what is given to a stream comes after what others have, and others wait for it: HIP's null stream. A marker there is
    /// no mere look.
    fn orders_others(&self, _stream: Self::Stream) -> bool {
        false
    }

    /// Gives a command to the hardware's queue. Called on the queue's LaunchWorker, in the queue's order. False if
    /// it was refused.
    fn launch(&self, command: Self::Command) -> bool;

    /// Records a marker behind everything that was given to a stream.
    fn mark(&self, stream: Self::Stream) -> Option<Self::Marker>;

    /// Whether everything that was given to a stream has completed; None if the device cannot tell. Never waits, and leaves the
    /// stream as it is.
    fn is_done(&self, stream: Self::Stream) -> Option<bool>;

    /// Whether everything before a marker has completed. Never waits.
    fn is_complete(&self, marker: Self::Marker) -> bool;

    /// The device's time from one complete marker to another of the same stream, if it knows.
    fn between(&self, earlier: Self::Marker, later: Self::Marker) -> Option<Nanos>;

    /// Takes a marker back.
    fn retire(&self, marker: Self::Marker);

    /// A new gate for a stream's device, open; None where there are none. May take a while.
    fn make_gate(&self, stream: Self::Stream) -> Option<Self::Gate>;

    /// A gate for a stream's device in a page that others write, too; None where that cannot be. May take a while. The device may
    /// look there from now on.
    fn share_gate(&self, _stream: Self::Stream, _page: &'static GatePage) -> Option<Self::Gate> {
        None
    }

    /// Puts a gate before what is given to a stream next. False if that cannot be done.
    fn put_gate(&self, gate: Self::Gate, stream: Self::Stream) -> bool;

    /// Opens a gate that is not shared, or shuts it. Never waits.
    fn set_gate(&self, gate: Self::Gate, is_open: bool);
}
