//! A queue's gate: the word that its process's streams wait for on the device, before each command.
//!
//! Each queue has a page of its own for it, which its process maps to write, too: a device maps memory only so. The arbiter
//! clears [`GATE_ALLOWED`] in the same moment in which a mask says that the queue has to give way, so that nothing that is
//! queued on the device begins from then on, whether the process gets a processor or not. What a process writes there
//! concerns nobody else: it may as well not put the gate before its commands.

/// Bytes of a gate's page. The word is the first in it; the rest is the process's.
pub const GATE_SIZE: usize = 4096;

/// The arbiter's bit: nobody more urgent has work.
pub const GATE_ALLOWED: u64 = 1;

/// The process's bit: the arbiter is not believed, or something is on the device that must not be stopped.
pub const GATE_KEPT_OPEN: u64 = 1 << 1;

/// Commands behind the gate begin while any of these is set.
pub const GATE_OPEN: u64 = GATE_ALLOWED | GATE_KEPT_OPEN;
