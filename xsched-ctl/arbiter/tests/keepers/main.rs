//! The effects of the controller's calls on the page, and what processes can do with their descriptors: without programs,
//! and with them.

#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod gates;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::event::epoll;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};
use rustix::time::{ClockId, Timespec, clock_gettime};
use xsched_arbiter::{Arbiter, ArbiterError, ClaimName, Owner, PINS, ProgramsError, Times};
use xsched_harness::{Arguments, Case, needs, needs::ROOT};
use xsched_protocol::arbiter_page::{
    ArbiterChange, BLOCK_SLOTS, CLAIM_MAX, DEVICE_MAX, PAGE_WORDS, REPORT_SYMBOL, Report, Word, device_key,
};

/// The number of tests so far that have pinned a page.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A test that runs with each kind of page.
type Test = fn(Kind);

/// What keeps the page.
#[derive(Clone, Copy)]
enum Kind {
    /// The controller alone.
    InMemory,
    /// BPF programs.
    OfPrograms,
}

impl Kind {
    fn run(self, times: &Times, test: impl Fn(Arbiter)) {
        match self {
            Self::InMemory => test(Arbiter::in_memory(times).expect("a page takes a few hundred KiB")),
            Self::OfPrograms => with_programs(times, test),
        }
    }

    /// The same with a controller that has sent a heartbeat.
    fn run_obeyed(self, test: impl Fn(Arbiter)) {
        self.run(&Times::default(), |mut arbiter| {
            arbiter.heartbeat();
            test(arbiter);
        });
    }
}

fn with_programs(times: &Times, test: impl Fn(Arbiter)) {
    let name = format!("{PINS}-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let arbiter = Arbiter::programs_pinned_at(Path::new(&name), times).expect("root may load programs");
    let pins = Pins(name.into());
    test(arbiter);
    drop(pins);
}

/// Pins outlive their controller; this removes them after a test.
struct Pins(PathBuf);

impl Drop for Pins {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

fn key() -> u64 {
    device_key(0, 0xc1, 0, 0)
}

fn ready(arbiter: &mut Arbiter, owner: Owner, claim: ClaimName) {
    arbiter.report(owner, Report::Ready, claim.slot, u64::from(claim.generation));
}

#[needs(ROOT)]
fn a_folder_of_another_user_is_replaced() {
    /// No process runs as this user.
    const STRANGER: u32 = 4_000_000_000;
    let pins = Pins(format!("{PINS}-test-{}-foreign", std::process::id()).into());
    fs::create_dir(&pins.0).unwrap();
    fs::create_dir(pins.0.join("in the way")).unwrap();
    chown(&pins.0, Some(STRANGER), Some(STRANGER)).unwrap();
    // The folder's owner may also lock it.
    let theirs = fs::File::open(&pins.0).unwrap();
    theirs.lock().unwrap();
    let arbiter = Arbiter::programs_pinned_at(&pins.0, &Times::default()).expect("the folder was replaced");
    let found = fs::symlink_metadata(&pins.0).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o700));
    let second = Arbiter::programs_pinned_at(&pins.0, &Times::default());
    assert!(matches!(second, Err(ArbiterError::Programs(ProgramsError::Occupied(_)))));
    arbiter.end();
}

fn a_claim_is_in_the_mask_while_it_is_ready(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let (a, b) = (arbiter.speak_for(100), arbiter.speak_for(200));
        let urgent = arbiter.open(a, key(), 3).unwrap().claim;
        let other = arbiter.open(b, key(), 7).unwrap().claim;
        assert_eq!(arbiter.page().load(Word::exists(0)), 1 << 3 | 1 << 7);
        ready(&mut arbiter, a, urgent);
        ready(&mut arbiter, b, other);
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 3 | 1 << 7);
        arbiter.set_level(urgent, 0).unwrap();
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 | 1 << 7);
        arbiter.report(a, Report::Idle, urgent.slot, u64::from(urgent.generation));
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 7);
        arbiter.expire(other);
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 7, "its lease has not expired");
        arbiter.set_times(&Times { lease: Duration::ZERO, ..Times::default() });
        let short = arbiter.open(b, key(), 9).unwrap().claim;
        ready(&mut arbiter, b, short);
        arbiter.expire(short);
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 7);
        assert_eq!(arbiter.page().load(Word::exists(0)), 1 | 1 << 7 | 1 << 9);
        let mut events = Vec::new();
        arbiter.drain(&mut events);
        let changes: Vec<_> = events.iter().map(|event| event.change).collect();
        let expected = [
            ArbiterChange::Obeyed,
            ArbiterChange::Opened,
            ArbiterChange::Opened,
            ArbiterChange::Ready,
            ArbiterChange::Ready,
            ArbiterChange::Level,
            ArbiterChange::Idle,
            ArbiterChange::Opened,
            ArbiterChange::Ready,
            ArbiterChange::Expired,
        ];
        assert_eq!(changes, expected.map(|change| change as u32));
    });
}

fn masks_are_empty_while_the_page_is_not_in_force(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let owner = arbiter.speak_for(100);
        let claim = arbiter.open(owner, key(), 3).unwrap().claim;
        ready(&mut arbiter, owner, claim);
        arbiter.release();
        assert_eq!(arbiter.page().load(Word::ready(0)), 0);
        let later = arbiter.open(owner, key(), 4).unwrap().claim;
        ready(&mut arbiter, owner, later);
        assert_eq!(arbiter.page().load(Word::ready(0)), 0);
        arbiter.heartbeat();
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 3 | 1 << 4);
    });
}

fn a_check_after_silence_takes_the_page_out_of_force(kind: Kind) {
    kind.run(&Times { silence: Duration::ZERO, ..Times::default() }, |mut arbiter| {
        arbiter.heartbeat();
        let owner = arbiter.speak_for(100);
        let claim = arbiter.open(owner, key(), 3).unwrap().claim;
        ready(&mut arbiter, owner, claim);
        assert!(arbiter.page().is_obeyed());
        // The clock has advanced since the heartbeat, and no silence is permitted.
        arbiter.report(owner, Report::Check, 0, 0);
        assert!(!arbiter.page().is_obeyed());
        assert_eq!(arbiter.page().load(Word::ready(0)), 0);
    });
}

fn other_processes_can_end_expired_leases_only(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let (a, b) = (arbiter.speak_for(100), arbiter.speak_for(200));
        let claim = arbiter.open(a, key(), 3).unwrap().claim;
        ready(&mut arbiter, a, claim);
        arbiter.report(b, Report::Expire, claim.slot, u64::from(claim.generation));
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 3);
        arbiter.set_times(&Times { lease: Duration::ZERO, ..Times::default() });
        let short = arbiter.open(a, key(), 9).unwrap().claim;
        ready(&mut arbiter, a, short);
        arbiter.report(b, Report::Expire, short.slot, u64::from(short.generation));
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 3);
    });
}

fn reports_about_other_processes_claims_change_nothing(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let (a, b) = (arbiter.speak_for(100), arbiter.speak_for(200));
        let claim = arbiter.open(a, key(), 3).unwrap().claim;
        ready(&mut arbiter, b, claim);
        arbiter.report(b, Report::Close, claim.slot, u64::from(claim.generation));
        ready(&mut arbiter, a, ClaimName { generation: claim.generation + 1, ..claim });
        // Slots are taken modulo the size of the table.
        ready(&mut arbiter, b, ClaimName { slot: claim.slot + CLAIM_MAX as u32, ..claim });
        assert_eq!(arbiter.page().load(Word::ready(0)), 0);
        assert!(arbiter.page().claim(claim.slot).word.is_open());
    });
}

fn the_end_of_a_process_closes_its_claims_and_no_others(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let (a, b) = (arbiter.speak_for(100), arbiter.speak_for(200));
        for level in 0..10 {
            let claim = arbiter.open(a, key(), level).unwrap().claim;
            ready(&mut arbiter, a, claim);
        }
        let other = arbiter.open(b, key(), 20).unwrap().claim;
        ready(&mut arbiter, b, other);
        arbiter.gone(a);
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 20);
        assert_eq!(arbiter.page().load(Word::exists(0)), 1 << 20);
        assert_eq!(arbiter.page().claims().count(), 1);
        assert!(matches!(arbiter.open(a, key(), 0), Err(ArbiterError::OwnerGone)));
        let again = arbiter.speak_for(100);
        let claim = arbiter.open(again, key(), 0).unwrap().claim;
        assert_eq!(claim, ClaimName { slot: 0, generation: 2 });
    });
}

fn a_full_page_is_an_error(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let owner = arbiter.speak_for(100);
        let mut open = |device| arbiter.open(owner, device_key(1, device, 0, 0), 1).unwrap().claim;
        let claims: Vec<_> = (0..DEVICE_MAX as u32).map(&mut open).collect();
        let one_more = arbiter.open(owner, key(), 1);
        assert!(matches!(one_more, Err(ArbiterError::DevicesFull)), "{one_more:?}");
        // The entry of a device without claims is reused.
        arbiter.close(claims[7]);
        arbiter.open(owner, key(), 1).unwrap();
        assert_eq!(arbiter.page().device(key()), Some(7));
        let opened = std::iter::repeat_with(|| arbiter.open(owner, device_key(1, 0, 0, 0), 1));
        assert_eq!(opened.take_while(Result::is_ok).count(), CLAIM_MAX - DEVICE_MAX);
        let one_more = arbiter.open(owner, device_key(1, 0, 0, 0), 1);
        assert!(matches!(one_more, Err(ArbiterError::ClaimsFull)), "{one_more:?}");
        assert!(matches!(arbiter.open(owner, 0, 1), Err(ArbiterError::NoDevice(0))));
    });
}

fn processes_can_only_read_the_page(kind: Kind) {
    kind.run_obeyed(|arbiter| {
        let map = |access| {
            // SAFETY: this creates a new mapping at an address of the kernel's choice.
            unsafe {
                mmap(std::ptr::null_mut(), PAGE_WORDS * 8, access, MapFlags::SHARED, arbiter.page_fd(), 0)
            }
        };
        let read_only = map(ProtFlags::READ).unwrap();
        // SAFETY: the mapping belongs to this test, and nothing refers to it.
        let made_writable =
            unsafe { mprotect(read_only, PAGE_WORDS * 8, MprotectFlags::READ | MprotectFlags::WRITE) };
        assert_eq!(made_writable.unwrap_err(), rustix::io::Errno::ACCESS);
        assert_eq!(map(ProtFlags::READ | ProtFlags::WRITE).unwrap_err(), rustix::io::Errno::PERM);
        assert!(rustix::io::write(arbiter.page_fd(), &[0; 8]).is_err());
        assert!(rustix::fs::ftruncate(arbiter.page_fd(), 0).is_err());
    });
}

/// The present time on the page's clock.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Waits for at most `milliseconds`; returns whether there was an event.
fn wait(on: impl AsFd, milliseconds: i64) -> io::Result<bool> {
    let mut events = Vec::with_capacity(4);
    let timeout = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    epoll::wait(on.as_fd(), rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
    Ok(!events.is_empty())
}

/// An epoll instance that waits for changes of these claims' devices, without one that was there before.
fn waiter(arbiter: &mut Arbiter, claims: &[ClaimName]) -> OwnedFd {
    let waiter = arbiter.wake_fd(claims).unwrap();
    wait(&waiter, 0).unwrap();
    waiter
}

fn changes_of_one_device_wake_no_process_of_another(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let owner = arbiter.speak_for(100);
        let mut of_device = |bus| {
            let mut open = |level| arbiter.open(owner, device_key(0, bus, 0, 0), level).unwrap().claim;
            (open(1), open(2))
        };
        let (here, there) = (of_device(1), of_device(2));
        let at_both = waiter(&mut arbiter, &[here.1, there.0, there.1]);
        let elsewhere = waiter(&mut arbiter, &[there.1]);
        for claim in [here.0, here.1, there.0, there.1] {
            ready(&mut arbiter, owner, claim);
        }
        assert!(!wait(&at_both, 0).unwrap() && !wait(&elsewhere, 0).unwrap());
        let mut events = Vec::new();
        for round in 0..3 {
            for (urgent, is_elsewhere) in [(here.0, false), (there.0, true)] {
                arbiter.report(owner, Report::Idle, urgent.slot, u64::from(urgent.generation));
                assert!(wait(&at_both, 0).unwrap(), "round {round}");
                assert_eq!(wait(&elsewhere, 0).unwrap(), is_elsewhere, "round {round}");
                ready(&mut arbiter, owner, urgent);
                wait(&at_both, 0).unwrap();
                wait(&elsewhere, 0).unwrap();
            }
            arbiter.drain(&mut events);
        }
        // What concerns all devices wakes all.
        arbiter.release();
        assert!(wait(&at_both, 0).unwrap() && wait(&elsewhere, 0).unwrap());
    });
}

fn any_number_of_devices_takes_a_descriptor_for_each_entry_at_most(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let owner = arbiter.speak_for(100);
        let count = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = count();
        let use_devices = |arbiter: &mut Arbiter| {
            for number in 0..2 * DEVICE_MAX as u32 {
                let key = device_key(0, number & 0xff, number >> 8, 0);
                let claim = arbiter.open(owner, key, 1).unwrap().claim;
                drop(waiter(arbiter, &[claim]));
                arbiter.close(claim);
            }
        };
        use_devices(&mut arbiter);
        arbiter.heartbeat();
        // Threads that change maps of maps have some for a moment.
        let deadline = Instant::now() + Duration::from_mins(1);
        while count() >= before + DEVICE_MAX + 10 {
            assert!(Instant::now() < deadline, "{} of {before}", count());
            thread::sleep(Duration::from_millis(10));
        }
        // These use an entry again, and so its ring.
        let [urgent, other] = [1, 2].map(|level| arbiter.open(owner, key(), level).unwrap().claim);
        let woken = waiter(&mut arbiter, &[other]);
        arbiter.heartbeat();
        ready(&mut arbiter, owner, urgent);
        ready(&mut arbiter, owner, other);
        arbiter.report(owner, Report::Idle, urgent.slot, u64::from(urgent.generation));
        assert!(wait(&woken, 0).unwrap());
    });
}

fn claims_of_one_device_share_blocks_of_slots(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let owner = arbiter.speak_for(100);
        let mut blocks = BTreeMap::<u8, BTreeSet<u32>>::new();
        let mut claims = Vec::new();
        for index in 0..3 * BLOCK_SLOTS as u32 {
            let bus = (index % 3) as u8;
            let claim = arbiter.open(owner, device_key(0, bus.into(), 0, 0), 1).unwrap().claim;
            blocks.entry(bus).or_default().insert(claim.slot / BLOCK_SLOTS as u32);
            claims.push(claim);
        }
        assert!(blocks.values().all(|of_device| of_device.len() == 1), "{blocks:?}");
        for claim in claims {
            arbiter.close(claim);
        }
        // A block that is empty serves any device, and forgets those before.
        let claim = arbiter.open(owner, device_key(0, 2, 0, 0), 1).unwrap().claim;
        let device = arbiter.page().claim(claim.slot).word.device();
        assert_eq!(arbiter.page().load(Word::block(claim.slot.into())), 1 << device);
        ready(&mut arbiter, owner, claim);
        assert_eq!(arbiter.page().load(Word::ready(device)), 1 << 1);
    });
}

fn draining_events_does_not_affect_other_waiters(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let owner = arbiter.speak_for(100);
        let urgent = arbiter.open(owner, key(), 1).unwrap().claim;
        let other = arbiter.open(owner, key(), 2).unwrap().claim;
        let (one, two) = (waiter(&mut arbiter, &[urgent]), waiter(&mut arbiter, &[other]));
        // No other claim has work, so no process can be affected.
        ready(&mut arbiter, owner, urgent);
        assert!(!wait(&one, 0).unwrap());
        // The reporting process knows itself that it must wait.
        ready(&mut arbiter, owner, other);
        assert!(!wait(&one, 0).unwrap() && !wait(&two, 0).unwrap());
        let mut events = Vec::new();
        for operation in [Report::Idle, Report::Ready, Report::Idle] {
            arbiter.report(owner, operation, urgent.slot, u64::from(urgent.generation));
            arbiter.drain(&mut events);
            for waiter in [&one, &two] {
                assert!(wait(waiter, 0).unwrap(), "{operation:?}");
                assert!(!wait(waiter, 0).unwrap(), "{operation:?}");
            }
        }
    });
}

fn a_listening_controller_is_called_for_changes_with_several_levels(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        arbiter.drain(&mut Vec::new());
        let calls = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&calls, arbiter.calls_fd(), epoll::EventData::new_u64(0), edge).unwrap();
        let owner = arbiter.speak_for(100);
        let urgent = arbiter.open(owner, key(), 1).unwrap().claim;
        let other = arbiter.open(owner, key(), 2).unwrap().claim;
        let mut events = Vec::new();
        // More often than the ring can hold calls.
        for listens in [false, true, false, true] {
            arbiter.listen(listens);
            for _ in 0..300 {
                ready(&mut arbiter, owner, urgent);
                assert!(!wait(&calls, 0).unwrap(), "no other claim has work");
                ready(&mut arbiter, owner, other);
                assert_eq!(wait(&calls, 0).unwrap(), listens);
                arbiter.drain(&mut events);
                arbiter.report(owner, Report::Idle, urgent.slot, u64::from(urgent.generation));
                assert_eq!(wait(&calls, 0).unwrap(), listens);
                arbiter.report(owner, Report::Idle, other.slot, u64::from(other.generation));
                arbiter.drain(&mut events);
                assert!(!wait(&calls, 0).unwrap(), "no other claim has work");
            }
        }
    });
}

/// A minimal file with the shim's function: one segment for the whole file, and one dynamic symbol.
fn shim() -> Vec<u8> {
    const CODE: u64 = 0x200;
    let name = REPORT_SYMBOL.as_bytes();
    let strings = [b"\0", name, b"\0"].concat();
    let (symbols_at, strings_at) = (0x100_u64, 0x180_u64);
    let mut file = vec![0; 0x1000];
    let mut put = |at: u64, numbers: &[(u64, usize)]| {
        let mut at = at as usize;
        for &(number, len) in numbers {
            file[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
            at += len;
        }
    };
    // 64 bits, little-endian; a shared object for x86-64; program headers at 64, three sections at 0x300.
    put(0, &[(0x1_0102_464c_457f, 8), (0, 8), (3, 2), (62, 2), (1, 4), (0, 8), (64, 8), (0x300, 8), (0, 4)]);
    put(52, &[(64, 2), (56, 2), (1, 2), (64, 2), (3, 2), (0, 2)]);
    // A loaded segment, readable and executable.
    put(64, &[(1, 4), (5, 4), (0, 8), (0, 8), (0, 8), (0x1000, 8), (0x1000, 8), (0x1000, 8)]);
    // A global function.
    put(symbols_at + 24, &[(1, 4), (0x12, 1), (0, 1), (1, 2), (CODE, 8), (2, 8)]);
    put(CODE, &[(0xc390, 2)]);
    let section = |kind, at, len, link, entry| {
        [(0, 4), (kind, 4), (0, 8), (at, 8), (at, 8), (len, 8), (link, 4), (1, 4), (8, 8), (entry, 8)]
    };
    put(0x340, &section(11, symbols_at, 48, 2, 24));
    put(0x380, &section(3, strings_at, strings.len() as u64, 0, 0));
    file[strings_at as usize..][..strings.len()].copy_from_slice(&strings);
    file
}

#[needs(ROOT)]
fn a_file_with_the_shims_function_is_probed_until_the_probe_is_removed() {
    with_programs(&Times::default(), |mut arbiter| {
        let file = memfd_create("shim", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &shim()).unwrap();
        let access = ProtFlags::READ | ProtFlags::EXEC;
        // SAFETY: this creates a new mapping at an address of the kernel's choice.
        unsafe { mmap(std::ptr::null_mut(), 0x1000, access, MapFlags::PRIVATE, &file, 0) }.unwrap();
        let find = |arbiter: &Arbiter| arbiter.search(std::process::id()).unwrap().run().unwrap();
        let id = find(&arbiter).id();
        assert_eq!(arbiter.probed(), []);
        // Two searches find it at the same time.
        let (first, second) = (find(&arbiter), find(&arbiter));
        let (first, second) = (first.probe().unwrap(), second.probe().unwrap());
        assert_eq!((arbiter.probed(), first.id(), second.id()), (vec![id], id, id));
        arbiter.expect(first).unwrap();
        let third = find(&arbiter).probe().unwrap();
        arbiter.unprobe(id);
        assert_eq!(arbiter.probed(), []);
        let gone = arbiter.expect(third);
        assert!(matches!(gone, Err(ArbiterError::Programs(ProgramsError::ProbeGone))), "{gone:?}");
        arbiter.expect(find(&arbiter).probe().unwrap()).unwrap();
    });
}

/// The tests that run with each kind of page, by name.
macro_rules! tests {
    ($($($name:ident)::+),+ $(,)?) => { [$((stringify!($($name)::+), $($name)::+ as Test)),+] };
}

fn main() -> ExitCode {
    let tests = tests![
        a_claim_is_in_the_mask_while_it_is_ready,
        masks_are_empty_while_the_page_is_not_in_force,
        a_check_after_silence_takes_the_page_out_of_force,
        other_processes_can_end_expired_leases_only,
        reports_about_other_processes_claims_change_nothing,
        the_end_of_a_process_closes_its_claims_and_no_others,
        a_full_page_is_an_error,
        processes_can_only_read_the_page,
        draining_events_does_not_affect_other_waiters,
        changes_of_one_device_wake_no_process_of_another,
        claims_of_one_device_share_blocks_of_slots,
        any_number_of_devices_takes_a_descriptor_for_each_entry_at_most,
        a_listening_controller_is_called_for_changes_with_several_levels,
        gates::a_gate_is_closed_while_a_more_urgent_claim_has_work,
        gates::gates_follow_levels,
        gates::gates_open_when_the_urgent_claim_or_process_ends,
        gates::gates_are_open_while_the_page_is_not_in_force,
        gates::bits_and_words_of_the_process_are_kept,
        gates::a_process_can_have_its_own_gate_corrected,
        gates::the_next_claim_of_a_slot_has_a_new_page,
        gates::a_gate_page_has_the_times_of_closing_and_opening,
        gates::a_quiet_process_is_woken_only_when_its_gate_opens,
        gates::a_gate_page_cannot_be_truncated,
        gates::a_claim_without_a_gate_page_works,
    ];
    let mut cases = xsched_harness::registered();
    for (name, test) in tests {
        cases.push(Case::new(format!("{name}::in_memory"), &[], move || test(Kind::InMemory)));
        cases.push(Case::new(format!("{name}::of_programs"), &[&ROOT], move || test(Kind::OfPrograms)));
    }
    xsched_harness::run(&Arguments::from_args(), cases)
}
