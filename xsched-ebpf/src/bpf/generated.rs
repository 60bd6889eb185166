//! Walking through generated code: see `xsched_abi::generated`.

use aya_ebpf::helpers::bpf_probe_read_user;
use xsched_abi::ChainEnd;
use xsched_abi::chain::Range;
use xsched_abi::generated::{Place, Surroundings, is_return_address, step};
use xsched_abi::unwind::Registers;

use crate::scratch::Scratch;
use crate::space::{NO_ROW, find_row};
use crate::walk::{self, ON};

/// Goes one frame up out of generated code; returns [`ON`] or how the walk ends.
///
/// A function of its own, beside `walk::frame`: the stacks of a program and of the functions that it is in are 512 bytes
/// together.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn generated_frame(scratch: *mut Scratch) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return ChainEnd::Generated as u32 };
    let at = Registers { rip: scratch.rip, rsp: scratch.rsp, rbp: scratch.rbp };
    match step(&at, scratch) {
        Some(registers) => {
            // It depends on code, too, which may become another at any time.
            scratch.word_count = walk::NOT_REMEMBERED;
            walk::advance(scratch, &registers, 0)
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
    fn place(&mut self, address: u64) -> Place {
        let [low, high] = self.space.ranges;
        let lies_in = |range: Range| address.wrapping_sub(range.start) < range.end.wrapping_sub(range.start);
        // Most words of a stack lie in neither.
        if !lies_in(low) && !lies_in(high) {
            return Place::Nowhere;
        }
        if find_row(self, address) != NO_ROW {
            return Place::Code;
        }
        if self.no_row == ChainEnd::UnknownCode as u32 {
            Place::Nowhere
        } else if self.no_row == ChainEnd::Generated as u32 {
            Place::Generated
        } else {
            Place::Code
        }
    }

    #[inline(always)]
    fn is_return_address(&mut self, word: u64) -> bool {
        returns_there(self, word) != 0
    }
}

/// Whether a word is the address of code behind a call.
///
/// A function of its own: the verifier would follow each of its branches for each word of a frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn returns_there(scratch: *mut Scratch, word: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    u32::from(is_return_address(word, scratch))
}
