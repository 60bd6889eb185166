//! Call chains of running processes: what BPF programs need to walk stacks, what becomes of their walks, and names for the
//! functions that they pass through. The tracer shows chains; the controller decides about calls by them.

mod chain;
mod chains;
mod maps;
mod names;
mod perf_map;

pub use chain::{Caller, Chain, Frame, GENERATED, Label};
pub use chains::{CALL_PATIENCE, Chains, Lookup};
pub use maps::ChainMaps;
pub use names::{Function, Names};
