//! Executes kernels of GCN3 (gfx803) and Vega (gfx900): the compute units of the stand-in GPU that AMD's own driver and runtime find in
//! the virtual machine of `tests/vm`, and of the one that AMD's runtime finds behind `tests/kfd-sim`. It is a test device: it shows what kernels compute, and nothing about how long a GPU takes. [`Simds`] gives
//! them durations, for tests of what waits for what.
//!
//! [`Run`] is a kernel's run. It reads everything it needs through [`Memory`], from the AQL packet of its [`Launch`] on. What is
//! missing here stops it with a [`Fault`] that names the instruction; nothing is guessed.

#![forbid(unsafe_code)]
#![expect(clippy::float_cmp, reason = "the hardware's comparisons are exact")]

mod atomic;
mod code;
mod compare;
mod decode;
mod fault;
mod float;
mod launch;
mod lds;
mod memory;
mod opcodes;
mod run;
mod scalar;
mod storage;
mod text;
mod time;
mod vector;
mod wave;

pub use compare::{Compare, CompareType};
pub use decode::{DecodeError, Encoding, Instruction, Isa, Lanes, MemoryBits, Operand, Segment, decode};
pub use fault::{Cause, Fault};
pub use launch::{APERTURES, Launch, LaunchError, Scratch};
pub use memory::{Block, Memory, Unmapped};
pub use opcodes::Op;
pub use run::{Run, Step};
pub use time::Simds;
