//! The immediate caller: the top of the stack at a function's entry.
//!
//! There the return address lies at the stack pointer, with or without frame pointers. It belongs to the immediate caller; walking
//! further up (`walk.rs`) starts from it.

use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::programs::ProbeContext;
use xsched_protocol::return_probe::is_trampoline;

use crate::shadow;

/// The top of the stack at a function's entry.
pub(crate) struct Frame {
    /// Address of the slot that holds the return address.
    pub(crate) return_slot: u64,
    /// The return address.
    pub(crate) caller: u64,
    /// The first stack arguments.
    pub(crate) arguments: [u64; STACK_ARGUMENTS],
}

/// Stack arguments that are read along with the return address.
pub(crate) const STACK_ARGUMENTS: usize = 4;

impl Frame {
    /// Reads the frame of the function that is being entered.
    ///
    /// If another probed function has jumped to this one, its return address is already replaced; `tid` selects the saved one.
    /// `Err` holds the slot's address: the stack could not be read.
    #[inline(always)]
    pub(crate) fn read(ctx: &ProbeContext, tid: u32) -> Result<Self, u64> {
        // SAFETY: the context's register file is valid while the program runs.
        let return_slot = unsafe { (*ctx.regs).rsp };
        // SAFETY: the helper checks the user address.
        let words = unsafe { bpf_probe_read_user(return_slot as *const [u64; 1 + STACK_ARGUMENTS]) };
        match words {
            Ok([caller, a, b, c, d]) => {
                let caller = if is_trampoline(caller) {
                    shadow::find(tid, return_slot).unwrap_or(caller)
                } else {
                    caller
                };
                Ok(Self { return_slot, caller, arguments: [a, b, c, d] })
            }
            Err(_) => Err(return_slot),
        }
    }
}
