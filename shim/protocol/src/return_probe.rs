//! How the kernel's return probes change a stack.
//!
//! Source: `uprobe_get_trampoline_vaddr` and `xol_add_vma` in
//! <https://github.com/torvalds/linux/blob/v6.12/kernel/events/uprobes.c>.

#![expect(clippy::inline_always, reason = "a call costs a BPF program its stack")]

/// Whether a word is the address with which return probes replace return addresses: that of the last page below the end of
/// the address space, of 47 bits or 56.
#[inline(always)]
pub const fn is_trampoline(word: u64) -> bool {
    word == 0x7fff_ffff_e000 || word == 0x00ff_ffff_ffff_e000
}
