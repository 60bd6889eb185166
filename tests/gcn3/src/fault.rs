//! Why a kernel cannot go on.

use crate::decode::DecodeError;
use crate::memory::Unmapped;

/// What stopped a wave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No instruction, or one of graphics.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A known instruction that this crate does not execute, or not in this way.
    #[error("not executed here")]
    Unsupported,
    /// An operand that the instruction cannot have.
    #[error("operand {0} cannot be read or written")]
    Operand(u16),
    /// A vector register beyond those that the kernel asked for.
    #[error("v{0} is beyond the kernel's vector registers")]
    Register(u16),
    /// An address without memory.
    #[error(transparent)]
    Memory(#[from] Unmapped),
    /// A trap that the kernel raised.
    #[error("trap {0}")]
    Trap(u8),
    /// Another rounding mode than to nearest, for an operation that only knows that one.
    #[error("rounding mode {0} is not supported for it")]
    Rounding(u8),
}

/// What stopped a kernel, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{instruction} at {pc:#x}: {cause}")]
pub struct Fault {
    /// Address of the instruction.
    pub pc: u64,
    /// The instruction, or its dwords.
    pub instruction: String,
    /// What is wrong with it.
    pub cause: Cause,
}
