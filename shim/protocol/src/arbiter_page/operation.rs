//! Operations on the arbiter, and the events that it emits.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A report of an application: first argument of the report function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Report {
    /// The process shows the token that it was given. Slot: 0; argument: the token.
    Join = 1,
    /// The claim has work, or still has: its lease is renewed. Argument: its generation, as in all that follow.
    Ready = 2,
    /// The claim has no work.
    Idle = 3,
    /// A claim of any process may have outlived its lease. The kernel's clock decides.
    Expire = 4,
    /// The last heartbeat may be too old. The kernel's clock decides. Slot and argument: 0.
    Check = 5,
    /// Closes the claim.
    Close = 6,
    /// The claim's gate may disagree with the masks: it is updated.
    Gate = 7,
}

/// An operation of the controller: first argument of its control function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Control {
    /// The controller is there.
    Heartbeat = 1,
    /// No controller is there from now on: no claim has to wait.
    Release = 2,
    /// Assigns a free entry to a device. Slot: its index; first: its key, see [`device_key`](super::device_key).
    AddDevice = 3,
    /// Opens a claim in a free slot. First: its [`ClaimWord`](super::ClaimWord); second: its owner.
    Open = 4,
    /// Closes a claim. First: its generation.
    Close = 5,
    /// Changes a claim's level. First: its generation; second: the level.
    SetLevel = 6,
    /// Sets lease and linger. First and second: nanoseconds.
    SetTimes = 7,
    /// A claim may have outlived its lease. The page's clock decides. First: its generation.
    Expire = 8,
    /// The caller becomes the controller. First: its token. The controller has put it, with its complement, where only the owner
    /// of the maps can write. The complement distinguishes it from the tokens of processes.
    BecomeController = 9,
    /// A report for a process whose reports no program sees. First: the [`Report`]; second: the generation.
    ProxyReport = 10,
    /// Closes all claims of a process. First: the owner.
    Gone = 11,
    /// Makes a device's masks agree with its counts, and the gates of its claims with the masks. Slot: its index.
    Repair = 12,
    /// Whether to wake the controller at every change of a mask with several levels. First: 1 or 0.
    Listen = 13,
    /// Forgets which devices had claims in a block of slots. Slot: the block's first; none of its slots has an open claim.
    ClearBlock = 14,
}

from_number!(u64, Report: Join Ready Idle Expire Check Close Gate);
from_number!(u64, Control: Heartbeat Release AddDevice Open Close SetLevel SetTimes Expire BecomeController ProxyReport Gone Repair Listen ClearBlock);

/// One change, in the arbiter's ring of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ArbiterEvent {
    /// When.
    pub time_ns: u64,
    /// An [`ArbiterChange`].
    pub change: u32,
    /// Which claim, if it is about one.
    pub slot: u32,
    /// The claim's word afterwards; for [`ArbiterChange::Joined`] the token.
    pub word: u64,
    /// The device's ready mask afterwards.
    pub ready: u64,
    /// Thread group that caused it, by its id in the initial pid namespace.
    pub owner: u64,
}

const _: () = assert!(size_of::<ArbiterEvent>() == 40);

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ArbiterChange {
    /// A claim became ready.
    Ready = 1,
    /// A claim became idle.
    Idle = 2,
    /// A claim's level changed.
    Level = 3,
    /// A claim was opened.
    Opened = 4,
    /// A claim was closed by its process or the controller.
    Closed = 5,
    /// A claim was closed because its process died or became another program.
    Died = 6,
    /// A claim's lease ran out: it is not ready any more.
    Expired = 7,
    /// The controller is gone: every claim may launch.
    Released = 8,
    /// A controller is there again.
    Obeyed = 9,
    /// A process has shown its token.
    Joined = 10,
    /// Masks or gates disagreed with the words that they are derived from: after a change that reached its bound, or during one.
    Repaired = 11,
}
