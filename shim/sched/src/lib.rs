//! The scheduler: decides how urgent each claim of a device is, and how much work a queue may have in flight.
//!
//! A claim is a process's use of one device. The caller feeds a [`Scheduler`] with changes of claims, and puts its
//! decisions into effect: a [`Level`] for each claim. The rule that levels serve is applied where work is launched: a claim may
//! launch while no claim of a more urgent level on its device is ready.
//!
//! ```text
//!   changes (opened, ready, idle, used, ...)                      decisions
//!  ------------------> Scheduler -> one Device each -------------------------> levels, and when to decide again
//!                                    |  accounts: waiting and use of each claim
//!                                    |  policy: ranks            (policy/, one file each)
//!                                    |  starvation: time slices  (around every policy)
//!                                    '- ranks: ranks to levels
//! ```
//!
//! Nothing here has a clock, does input or output, or is random. The same changes at the same times give the same decisions: in
//! the controller, in one process without a controller ([`Local`]), in a simulation and from a recording.

#![forbid(unsafe_code)]

mod account;
mod claim;
mod claim_change;
mod class;
mod commands;
mod device;
mod hints;
mod in_flight;
mod level;
mod local;
mod mask;
mod policies;
mod policy;
mod ranks;
mod requests;
mod scheduler;
mod settings;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod starvation;
mod time;
mod turns;

pub use claim_change::{Attributes, ClaimChange, ClaimId, DeviceId, ProcessId};
pub use class::{CLASSES, class_priority};
pub use hints::{NoHint, Quota, Slo, check_deadline, check_work};
pub use in_flight::{Durations, Gate, InFlight, Launch, Limit, Payer};
pub use level::Level;
pub use local::{Changes, Local};
pub use policies::{PolicyKind, UnknownPolicy};
pub use scheduler::{ClaimState, Decisions, Scheduler};
pub use settings::{Settings, SettingsError};
pub use time::Nanos;
pub use turns::{Happening, What};
