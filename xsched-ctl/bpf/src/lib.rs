//! Loading BPF programs and talking to them, as far as aya does not do it: programs and maps by bpf(2) itself, rings of records,
//! memory shared with programs, and the rights that the kernel asks for.

mod counters;
mod error;
mod maps;
pub mod namespace;
pub mod privilege;
mod ring;
mod shared;
pub mod sys;
mod tracefs;
mod walks;
mod written;

pub use counters::{CounterMap, Losses};
pub use error::{BpfError, load_error};
pub use maps::{keys, map_fd, processor_count};
pub use ring::{Drained, Record, Ring};
pub use shared::Shared;
pub use tracefs::{NoTracepoints, tracefs_with};
pub use walks::RememberedWalks;
pub use written::Written;
