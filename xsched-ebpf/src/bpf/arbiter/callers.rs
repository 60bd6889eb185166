//! The identity of callers, and the end of processes.

use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use xsched_protocol::arbiter_page::{
    ArbiterChange, ArbiterEvent, Control, Host as _, KernelOffsets, Report, Word, Words as _, dispatch,
    protocol,
};

use crate::host::OWNERS;
use crate::page::{self, Kept};

/// Tokens that are expected: the value is the process that has shown the token, or 0; for the controller's token, first the token's
/// complement. Only user space can fill it. It has more entries than all users but root may have connections together.
#[map]
static EXPECTED: HashMap<u64, u64> = HashMap::with_max_entries(8192, 0);

#[map]
static KERNEL: Array<KernelOffsets> = Array::with_max_entries(1, 0);

/// The current process, by its id in the initial pid namespace.
#[inline(always)]
fn current() -> u64 {
    bpf_get_current_pid_tgid() >> 32
}

/// A process reports.
#[inline(always)]
pub(crate) fn report(operation: u64, slot: u64, argument: u64) {
    let (Some(page), Some(report)) = (Kept::get(), Report::from_number(operation)) else { return };
    let owner = current();
    match report {
        Report::Join => join(page, owner, argument),
        // The page itself does not say which processes may report these.
        Report::Expire | Report::Check if !page.lives(owner) => page.add(Word::REFUSED, 1),
        _ => dispatch::report(&page, owner, report, slot, argument),
    }
}

#[inline(always)]
fn join(kept: Kept, owner: u64, token: u64) {
    let Some(shown_by) = EXPECTED.get_ptr_mut(token) else { return kept.add(Word::REFUSED, 1) };
    // A token is shown once.
    // SAFETY: the element may hold another token by now, if user space has just given up on this one. Then the other process's
    // reports are not seen, user space reports for it, and it releases this one when it reads of it.
    let is_first = unsafe { page::replace(shown_by, 0, owner) };
    if !is_first || OWNERS.insert(owner, token, 0).is_err() {
        return kept.add(Word::REFUSED, 1);
    }
    let event = ArbiterEvent {
        time_ns: kept.now_ns(),
        change: ArbiterChange::Joined as u32,
        slot: 0,
        word: token,
        ready: 0,
        owner,
    };
    kept.emit(event, true);
}

/// A control operation is called.
#[inline(always)]
pub(crate) fn control(operation: u64, slot: u64, first: u64, second: u64) {
    let (Some(page), Some(control)) = (Kept::get(), Control::from_number(operation)) else { return };
    let caller = current();
    if control as u64 == Control::BecomeController as u64 {
        return claim(page, caller, first);
    }
    if page.load(Word::CONTROLLER) == caller {
        dispatch::control(&page, caller, control, slot, first, second);
    } else {
        page.add(Word::REFUSED, 1);
    }
}

#[inline(always)]
fn claim(page: Kept, caller: u64, token: u64) {
    let Some(shown_by) = EXPECTED.get_ptr_mut(token) else { return page.add(Word::REFUSED, 1) };
    // Processes know tokens, too, and can call this function. Theirs have no complement, whatever the element holds by now.
    // SAFETY: as above; an element that holds another token by now has another complement.
    if !unsafe { page::replace(shown_by, !token, caller) } {
        return page.add(Word::REFUSED, 1);
    }
    // It was shown, and is not valid any more.
    let _ = EXPECTED.remove(token);
    page.store(Word::CONTROLLER, caller);
    page.add(Word::EPOCH, 1);
}

/// The current thread ends.
#[inline(always)]
pub(crate) fn exit() {
    let Some(page) = Kept::get() else { return };
    let process = current();
    // Nearly all threads end here.
    if (page.load(Word::CONTROLLER) == process || page.lives(process)) && is_last_thread() {
        end(page, process);
    }
}

/// The current process has executed another program. It has one thread, which knows of no claim.
#[inline(always)]
pub(crate) fn exec() {
    let Some(page) = Kept::get() else { return };
    end(page, current());
}

/// A process has ended, or has become another program. May be called twice: several threads can be the last.
#[inline(always)]
fn end(page: Kept, process: u64) {
    if page.replace(Word::CONTROLLER, process, 0) && protocol::release(&page) {
        dispatch::released(&page, process);
    }
    // Before the search for its claims: see `protocol::open`.
    if OWNERS.remove(process).is_ok() {
        dispatch::close_all(&page, process);
    }
}

/// Whether no thread of the current process is left. The kernel counts a thread out before this tracepoint
/// (`do_exit` in <https://github.com/torvalds/linux/blob/v6.12/kernel/exit.c>), and none returns to user space.
#[inline(always)]
fn is_last_thread() -> bool {
    let Some(offsets) = KERNEL.get(0) else { return false };
    // SAFETY: the helper takes nothing and returns the address of the current task.
    let task = unsafe { bpf_get_current_task() };
    let live: Option<i32> = read::<u64>(task + u64::from(offsets.task_signal))
        .and_then(|signal| read(signal + u64::from(offsets.signal_live)));
    live == Some(0)
}

#[inline(always)]
fn read<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(address as *const T) }.ok()
}
