//! The scheduler: decides how urgent each queue of a device is, and how much work a queue may have launched ahead.
//!
//! A *queue* is a process's claim on one device. Who uses this crate tells a [`Scheduler`] what queues do, and puts into
//! effect what it answers: a [`Level`] for each. The rule that levels obey is not applied here but where work is launched: a
//! queue may launch while no queue of a more urgent level on its device is ready.
//!
//! ```text
//!   events (opened, ready, idle, used, ...)                       decisions
//!  ------------------> Scheduler -> one Device each -------------------------> levels, when to ask again
//!                                    |  accounts: who waited, who used what
//!                                    |  policy: ranks            (policy/, one file each)
//!                                    |  starvation: turns        (around every policy)
//!                                    '- ranks: ranks to levels
//! ```
//!
//! Nothing here has a clock, reads or writes anything, or draws lots: the same events at the same times give the same
//! decisions, in the controller, in one process without a controller ([`Local`]), in a simulation and from a recording.

#![forbid(unsafe_code)]

mod account;
mod device;
mod event;
mod in_flight;
mod level;
mod local;
mod mask;
mod policies;
mod policy;
mod queue;
mod ranks;
mod replay;
mod scheduler;
mod settings;
#[cfg(test)]
mod simulation;
mod starvation;
mod time;

pub use event::{Attributes, DeviceId, Event, ProcessId, QueueId};
pub use in_flight::{Gate, InFlight, Launch, Limit, Payer};
pub use level::Level;
pub use local::{Changes, Local};
pub use policies::{PolicyKind, UnknownPolicy};
pub use replay::{Decided, Step, replay, replay_events};
pub use scheduler::{Decisions, QueueState, Scheduler};
pub use settings::{Settings, SettingsError};
pub use time::Nanos;
