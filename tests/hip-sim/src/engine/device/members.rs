//! The processes on a device, and immediate detection of their deaths.
//!
//! Each process has a guard thread on each shared device, which only sleeps. The process's `life` word holds
//! the thread's id, and the word is on the thread's [robust
//! list](https://docs.kernel.org/locking/robust-futex-ABI.html). The thread dies only with its process. When
//! it does, the *kernel* marks the word and wakes its waiters, which are the guards of the other processes.
//! Unlike a look at `/proc` or a heartbeat, this needs no polling, cannot mistake a recycled process id, and
//! works across pid namespaces.
//!
//! ```text
//! life: 0 -- claimed by exchange --> thread id | WAITERS -- death, by the kernel --> OWNER_DIED | WAITERS
//!       ^------------- its queues are removed from the schedule, then by exchange --------------'
//! ```

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::thread::futex;

use super::Device;
use super::region::{MEMBERS, MemberSlot, Region};
use crate::engine::worker;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const THREAD: u32 = !(WAITERS | OWNER_DIED);
/// Poll interval if the kernel cannot wait for several words
/// ([`futex_waitv`](https://docs.kernel.org/userspace-api/futex2.html), before 5.16).
const POLL: Duration = Duration::from_millis(10);

/// The kernel's `struct robust_list_head`.
#[repr(C)]
struct RobustList {
    first: *const c_void,
    life_offset: isize,
    pending: *const c_void,
}

/// Starts the guard thread and waits until the process is a member. Returns its number; none if the device is
/// full.
pub(super) fn join(device: &Arc<Device>) -> Option<usize> {
    let joined: Arc<OnceLock<Option<usize>>> = Arc::default();
    let number = Arc::clone(&joined);
    let device = Arc::clone(device);
    // A library's constructor may make the first HIP call, while the thread holds the dynamic loader's lock.
    worker::spawn_bare(c"hip-sim-device", move || {
        // The list lies on this thread's stack. The thread never returns; the kernel follows the list when
        // the thread dies.
        let mut list = RobustList { first: core::ptr::null(), life_offset: 0, pending: core::ptr::null() };
        let member = claim(device.region(), &raw mut list);
        if let Some(member) = member {
            device.member.set(member).expect("a device is joined once");
            device.publish_proof();
            // Queues may be left here if another death overtook the guard that freed the slot.
            device.remove_member(member);
        }
        let _ = joined.set(member);
        if let Some(member) = member {
            guard(&device, member);
        }
    });
    *number.wait()
}

/// Takes a free slot; the slot is on this thread's robust list before it is taken.
fn claim(region: &Region, list: *mut RobustList) -> Option<usize> {
    let life = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned() | WAITERS;
    let free_slot = region.members.iter().enumerate().find(|(_, slot)| {
        if slot.life.load(Ordering::Relaxed) != 0 {
            return false;
        }
        // SAFETY: `list` outlives this thread's use of it, and the slot is mapped as long as the process lives.
        unsafe { watch(list, slot) };
        slot.life.compare_exchange(0, life, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    free_slot.map(|(number, _)| number)
}

/// Makes a slot the only entry of this thread's robust list. The kernel touches its word only if it holds
/// this thread's id.
///
/// # Safety
///
/// Both arguments live as long as the thread. The thread uses no robust mutex of the C library, whose list
/// this replaces.
unsafe fn watch(list: *mut RobustList, slot: &MemberSlot) {
    // A list with one entry, whose node points back at the head.
    slot.node.store(list.expose_provenance() as u64, Ordering::Relaxed);
    let head = RobustList {
        first: (&raw const slot.node).cast(),
        life_offset: (core::mem::offset_of!(MemberSlot, life) - core::mem::offset_of!(MemberSlot, node))
            .cast_signed(),
        pending: core::ptr::null(),
    };
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        list.write(head);
        libc::syscall(libc::SYS_set_robust_list, list, size_of::<RobustList>());
    }
}

impl MemberSlot {
    /// The id of a member's guard thread, in that process's own pid namespace; it may have just died. None
    /// for a dead member.
    pub(super) fn guard(&self) -> Option<rustix::thread::Pid> {
        let life = self.life.load(Ordering::Acquire);
        rustix::thread::Pid::from_raw((life & THREAD).cast_signed())
    }
}

/// Waits for new members and deaths, forever.
fn guard(device: &Device, own: usize) {
    let region = device.region();
    region.roster.fetch_add(1, Ordering::AcqRel);
    let _ = futex::wake(&region.roster, futex::Flags::empty(), u32::MAX);
    loop {
        // Read before the members: if a member joins after this, the value changes and the wait below returns
        // at once.
        let roster = region.roster.load(Ordering::Acquire);
        let others = region.members.iter().enumerate().filter(|(number, _)| *number != own);
        let lives = others.map(|(_, slot)| (&slot.life, slot.life.load(Ordering::Acquire)));
        let mut words: Vec<_> = lives.filter(|(_, life)| *life != 0).collect();
        if words.iter().any(|(_, life)| life & OWNER_DIED != 0) {
            remove_dead(device);
            continue;
        }
        words.push((&region.roster, roster));
        wait_any(&words);
    }
}

/// Removes the queues of members that have died since the last call.
pub(super) fn remove_dead(device: &Device) {
    for (number, slot) in device.region().members.iter().enumerate() {
        let life = slot.life.load(Ordering::Acquire);
        if life & OWNER_DIED != 0 {
            device.remove_member(number);
            // Fails if another process removed it first; the slot may then already be taken again.
            let _ = slot.life.compare_exchange(life, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Returns when one of the words no longer has its value, or earlier.
fn wait_any(words: &[(&AtomicU32, u32)]) {
    let waiters: Vec<_> = words
        .iter()
        .map(|(word, value)| {
            let mut wait = futex::Wait::new();
            wait.val = u64::from(*value);
            wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
            wait.flags = futex::WaitFlags::SIZE_U32;
            wait
        })
        .collect();
    let result = futex::waitv(&waiters, futex::WaitvFlags::empty(), None, futex::ClockId::Monotonic);
    if matches!(result, Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM | rustix::io::Errno::INVAL)) {
        thread::sleep(POLL);
    }
}
const _: () = assert!(MEMBERS < 128, "the kernel waits for 128 words at most");
