//! Keeps the machine's arbiter page: with BPF programs if they can be loaded, else in this process's memory.
//!
//! The controller opens claims for processes and sets their levels; processes report when they have work. The page alone says
//! which levels may launch, and processes map it. [`xsched_protocol::arbiter_page`] has the page's layout and the code that
//! changes it.
//!
//! This crate does not block and makes no scheduling decisions; a policy makes these.

mod gates;
mod keeper;
mod memory;
mod page;
mod programs;
mod times;
mod wake;

pub use keeper::{Arbiter, ArbiterError, ClaimName, Opened, Owner};
pub use page::{ClaimState, Page};
pub use programs::{FoundShim, PINS, ProbedShim, ProgramsError, SHIMS_MAX, ShimSearch, try_programs};
pub use times::Times;
