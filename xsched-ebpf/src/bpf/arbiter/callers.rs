//! Who speaks, and who has died.

use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use xsched_protocol::arbiter_page::protocol::Wakes;
use xsched_protocol::arbiter_page::{
    ArbiterChange, ArbiterEvent, Control, Host as _, KernelOffsets, Report, Word, Words as _, dispatch,
    protocol,
};

use crate::host::OWNERS;
use crate::page::{self, Kept};

/// Numbers that somebody was given to show: who has shown it, or 0; of one that makes its caller the controller, its complement.
/// User space fills it; the only one who can. There is room for more than all users together may be connected but root.
#[map]
static EXPECTED: HashMap<u64, u64> = HashMap::with_max_entries(8192, 0);

#[map]
static KERNEL: Array<KernelOffsets> = Array::with_max_entries(1, 0);

/// The current process, as the initial pid namespace has it.
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
        // Of these the page itself does not say who may.
        Report::Expire | Report::Check if !page.lives(owner) => page.add(Word::REFUSED, 1),
        _ => dispatch::report(&page, owner, report, slot, argument),
    }
}

#[inline(always)]
fn join(kept: Kept, owner: u64, number: u64) {
    let Some(shown_by) = EXPECTED.get_ptr_mut(number) else { return kept.add(Word::REFUSED, 1) };
    // A number is shown once.
    // SAFETY: the element may be another's by now, if user space has just given up on this number; then the other is
    // not heard and user space speaks for it, and lets this one go when it reads of it.
    let is_first = unsafe { page::replace(shown_by, 0, owner) };
    if !is_first || OWNERS.insert(owner, number, 0).is_err() {
        return kept.add(Word::REFUSED, 1);
    }
    let event = ArbiterEvent {
        time_ns: kept.now_ns(),
        change: ArbiterChange::Joined as u32,
        slot: 0,
        word: number,
        ready: 0,
        owner,
    };
    kept.emit(event, Wakes { processes: false, controller: true });
}

/// Somebody orders.
#[inline(always)]
pub(crate) fn control(operation: u64, slot: u64, first: u64, second: u64) {
    let (Some(page), Some(control)) = (Kept::get(), Control::from_number(operation)) else { return };
    let caller = current();
    if control as u64 == Control::Claim as u64 {
        return claim(page, caller, first);
    }
    if page.load(Word::CONTROLLER) == caller {
        dispatch::control(&page, caller, control, slot, first, second);
    } else {
        page.add(Word::REFUSED, 1);
    }
}

#[inline(always)]
fn claim(page: Kept, caller: u64, number: u64) {
    let Some(shown_by) = EXPECTED.get_ptr_mut(number) else { return page.add(Word::REFUSED, 1) };
    // Processes know numbers, too, and can call this function. Theirs is not for this, whatever the element holds by now.
    // SAFETY: as above; an element that is another's by now has another complement.
    if !unsafe { page::replace(shown_by, !number, caller) } {
        return page.add(Word::REFUSED, 1);
    }
    // It was shown, and is good no more.
    let _ = EXPECTED.remove(number);
    page.store(Word::CONTROLLER, caller);
    page.add(Word::EPOCH, 1);
}

/// The current thread ends.
#[inline(always)]
pub(crate) fn exit() {
    let Some(page) = Kept::get() else { return };
    let who = current();
    // Nearly all threads end here.
    if (page.load(Word::CONTROLLER) == who || page.lives(who)) && is_last_thread() {
        end(page, who);
    }
}

/// The current process is another program now. It has one thread, which knows nothing of any queue.
#[inline(always)]
pub(crate) fn exec() {
    let Some(page) = Kept::get() else { return };
    end(page, current());
}

/// A process is no more what it was. May happen twice: several threads can be the last.
#[inline(always)]
fn end(page: Kept, who: u64) {
    if page.replace(Word::CONTROLLER, who, 0) && protocol::release(&page) {
        dispatch::released(&page, who);
    }
    // Before its queues are looked for: see `protocol::open`.
    if OWNERS.remove(who).is_ok() {
        dispatch::close_all(&page, who);
    }
}

/// Whether no thread of the current process is left. The kernel counts a thread out before it comes here, and none
/// returns to user space.
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
