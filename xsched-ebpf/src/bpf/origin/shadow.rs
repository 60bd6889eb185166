//! Return addresses that return probes of any program have replaced: the kernel keeps them for each thread.
//!
//! ```text
//! task_struct.utask ──► uprobe_task.return_instances ──► return_instance { stack, orig_ret_vaddr, next } ──► …
//! ```
//!
//! Only the current thread changes its list. The structures are in
//! <https://github.com/torvalds/linux/blob/v6.12/include/linux/uprobes.h>.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::helpers::generated::bpf_get_current_task;

use crate::pages;

/// Number of probed calls in progress that are searched: a launch is rarely more than a few deep.
const CALLS_MAX: usize = 16;

/// The return address that was at `slot` of the current thread.
#[inline(always)]
pub(crate) fn find(_tid: u32, slot: u64) -> Option<u64> {
    match find_replaced(slot) {
        0 => None,
        address => Some(address),
    }
}

/// The same; 0 if there is none. A function of its own, since walks call it from several places.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn find_replaced(slot: u64) -> u64 {
    let Some(config) = pages::config() else { return 0 };
    if config.task_utask == 0 {
        return 0;
    }
    // SAFETY: the helper takes nothing and returns the address of the current task.
    let task = unsafe { bpf_get_current_task() };
    let mut instance = read(read(task + u64::from(config.task_utask)) + u64::from(config.utask_instances));
    for _ in 0..CALLS_MAX {
        if instance == 0 {
            break;
        }
        if read(instance + u64::from(config.instance_stack)) == slot {
            return read(instance + u64::from(config.instance_address));
        }
        instance = read(instance + u64::from(config.instance_next));
    }
    0
}

/// A word of the kernel's memory; 0 if it cannot be read.
#[inline(always)]
fn read(address: u64) -> u64 {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(address as *const u64) }.unwrap_or(0)
}
