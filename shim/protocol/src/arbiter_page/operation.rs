//! What is said to the arbiter, and what it says.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What an application tells the arbiter: first argument of the report function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Report {
    /// "I am the process that was given this number": slot 0, argument: the number.
    Join = 1,
    /// The queue has work, or still has: its lease begins anew. Argument: its generation, as in all that follow.
    Ready = 2,
    /// The queue has no work.
    Idle = 3,
    /// Somebody else's queue may have outlived its lease. The kernel's clock decides.
    Expire = 4,
    /// The controller may have been silent for too long. The kernel's clock decides. Slot and argument: 0.
    Check = 5,
    /// The queue is to be closed.
    Close = 6,
    /// The queue's gate may be otherwise than the masks say: it is made to agree with them.
    Gate = 7,
}

/// What the controller orders: first argument of its control function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Control {
    /// It lives, and is to be obeyed.
    Heartbeat = 1,
    /// Nobody is to be obeyed.
    Release = 2,
    /// A device's place is taken, which nobody uses. Slot: its index; first: its key, see [`device_key`](super::device_key).
    AddDevice = 3,
    /// A queue is opened in a free slot. First: its [`QueueWord`](super::QueueWord); second: its owner.
    Open = 4,
    /// A queue is closed. First: its generation.
    Close = 5,
    /// A queue's level changes. First: its generation; second: the level.
    SetLevel = 6,
    /// Lease and linger. First and second: nanoseconds.
    SetTimes = 7,
    /// A queue may have outlived its lease. The page's clock decides. First: its generation.
    Expire = 8,
    /// The caller is the controller from now on. First: a number that it has put where only the owner of the maps can, with the
    /// number's complement, which tells it from those that processes are given to show.
    Claim = 9,
    /// A report of a process that no program hears. First: the [`Report`]; second: the generation.
    Speak = 10,
    /// All queues of a process are closed. First: the owner.
    Gone = 11,
    /// A device's masks are made to agree with its counts, and the gates of its queues with the masks. Slot: its index.
    Repair = 12,
    /// The controller has to hear at once of whatever changes a mask of several levels, or need not. First: 1 or 0.
    Listen = 13,
}

macro_rules! from_number {
    ($type:ident: $($operation:ident)*) => {
        impl $type {
            /// The operation of a number, if there is one.
            #[inline]
            pub const fn from_number(number: u64) -> Option<Self> {
                $(if number == Self::$operation as u64 {
                    return Some(Self::$operation);
                })*
                None
            }
        }
    };
}

from_number!(Report: Join Ready Idle Expire Check Close Gate);
from_number!(Control: Heartbeat Release AddDevice Open Close SetLevel SetTimes Expire Claim Speak Gone Repair Listen);

/// One change, in the arbiter's ring buffer. Whoever waits for the masks to change polls that ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ArbiterEvent {
    /// When.
    pub time_ns: u64,
    /// An [`ArbiterChange`].
    pub change: u32,
    /// Which queue, if it is about one.
    pub slot: u32,
    /// The queue's word afterwards; the number that was shown for [`ArbiterChange::Joined`].
    pub word: u64,
    /// The device's ready mask afterwards.
    pub ready: u64,
    /// Thread group that caused it, as the initial pid namespace has it.
    pub owner: u64,
}

const _: () = assert!(size_of::<ArbiterEvent>() == 40);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ArbiterChange {
    /// A queue became ready.
    Ready = 1,
    /// A queue became idle.
    Idle = 2,
    /// A queue's level changed.
    Level = 3,
    /// A queue was opened.
    Opened = 4,
    /// A queue was closed by its process or the controller.
    Closed = 5,
    /// A queue was closed because its process died or became another program.
    Died = 6,
    /// A queue's lease ran out: it is not ready any more.
    Expired = 7,
    /// The controller's word does not hold any more: everything may launch.
    Released = 8,
    /// The controller's word holds again.
    Obeyed = 9,
    /// A process has shown the number that it was given.
    Joined = 10,
    /// Masks or gates did not agree with what they are made from: after a change that gave up, or one that is not through.
    Repaired = 11,
}
