//! Walking through generated code: see `xsched_abi::generated`.

use aya_ebpf::helpers::bpf_probe_read_user;
use xsched_abi::ChainEnd;
use xsched_abi::chain::Range;
use xsched_abi::generated::{AddressKind, Surroundings, is_return_address, step};
use xsched_abi::unwind::Registers;

use crate::scratch::{NOT_REMEMBERED, ON, Scratch};
use crate::space::{NO_ROW, find_row};

/// Goes one frame up out of generated code; returns [`ON`] or how the walk ends.
///
/// A function of its own, beside `walk::frame`: the stack of a program and of the functions that it calls is 512 bytes in total
/// (`MAX_BPF_STACK` in <https://github.com/torvalds/linux/blob/v6.12/include/linux/filter.h>).
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn generated_frame(scratch: *mut Scratch) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return ChainEnd::Generated as u32 };
    let at = Registers { rip: scratch.rip, rsp: scratch.rsp, rbp: scratch.rbp };
    match step(&at, scratch) {
        Some(registers) => {
            // The step depends on code as well, which may change at any time.
            scratch.word_count = NOT_REMEMBERED;
            scratch.advance(&registers, 0)
        }
        None => ChainEnd::Generated as u32,
    }
}

impl Surroundings for Scratch {
    #[inline(always)]
    fn code(&mut self, address: u64) -> Option<u64> {
        // SAFETY: the helper checks the user address.
        unsafe { bpf_probe_read_user(address as *const u64) }.ok()
    }

    #[inline(always)]
    fn stack(&mut self, address: u64) -> Option<u64> {
        self.word(address)
    }

    #[inline(always)]
    fn kind(&mut self, address: u64) -> AddressKind {
        let [low, high] = self.space.ranges;
        let lies_in = |range: Range| address.wrapping_sub(range.start) < range.end.wrapping_sub(range.start);
        // Most words of a stack are in neither range.
        if !lies_in(low) && !lies_in(high) {
            return AddressKind::NoCode;
        }
        if find_row(self, address) != NO_ROW {
            return AddressKind::Code;
        }
        if self.no_row == ChainEnd::UnknownCode as u32 {
            AddressKind::NoCode
        } else if self.no_row == ChainEnd::Generated as u32 {
            AddressKind::Generated
        } else {
            AddressKind::Code
        }
    }

    #[inline(always)]
    fn is_return_address(&mut self, word: u64) -> bool {
        returns_there(self, word) != 0
    }
}

/// Whether a word is the address of an instruction after a call.
///
/// A function of its own: the verifier would follow each of its branches for each word of a frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn returns_there(scratch: *mut Scratch, word: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    u32::from(is_return_address(word, scratch))
}
