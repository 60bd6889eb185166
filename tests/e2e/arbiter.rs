//! The arbiter's BPF programs: which reports they accept, from which process, and the state after a process ends.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aya::maps::{ArrayOfMaps, HashMap, Map, MapData};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use xsched_arbiter::{Arbiter, ArbiterError, ClaimName, Owner, PINS, ProgramsError, Times};
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_protocol::arbiter_page::{
    ArbiterChange, Control, GATE_ALLOWED, GATE_KEPT_OPEN, GATE_SIZE, Report, Word, device_key,
};
use xsched_tests::arbiter::Peer;

/// In the folder above that of the test programs.
static PEER: LazyLock<String> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    built.join("arbiter-peer").to_str().unwrap().to_owned()
});

/// A folder for pins; dropping it removes it.
struct Pins(PathBuf);

impl Pins {
    fn of(test: &str) -> Self {
        Self(format!("{PINS}-{test}-{}", std::process::id()).into())
    }

    fn arbiter(&self, times: &Times) -> Arbiter {
        let mut arbiter = Arbiter::programs_pinned_at(&self.0, times).unwrap();
        arbiter.heartbeat();
        arbiter
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn key() -> u64 {
    device_key(0, 0xc1, 0, 0)
}

/// Makes an application join.
fn join(arbiter: &mut Arbiter, application: &mut Peer) -> Owner {
    let shim = arbiter.search(application.pid()).unwrap().run().unwrap().probe().unwrap();
    let token = arbiter.expect(shim).unwrap();
    assert_eq!(arbiter.joined(token), None);
    application.ask(&format!("report {} 0 {token}", Report::Join as u64));
    arbiter.joined(token).expect("the BPF program runs before the probed function returns")
}

/// An application with a ready claim.
fn ready(arbiter: &mut Arbiter, level: u8) -> (Peer, Owner, ClaimName) {
    let mut application = Peer::application(&PEER);
    let owner = join(arbiter, &mut application);
    let claim = arbiter.open(owner, key(), level).unwrap().claim;
    application.report(Report::Ready, claim);
    assert_eq!(mask(arbiter) >> level & 1, 1);
    (application, owner, claim)
}

/// The word of a gate, mapped for as long as the test runs.
fn map(page: impl AsFd) -> &'static AtomicU64 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses, that is never unmapped.
    unsafe { &*mmap(std::ptr::null_mut(), GATE_SIZE, access, MapFlags::SHARED, page, 0).unwrap().cast() }
}

/// An application with a ready claim and its gate.
fn ready_with_gate(arbiter: &mut Arbiter, level: u8) -> (Peer, ClaimName, &'static AtomicU64) {
    let mut application = Peer::application(&PEER);
    let owner = join(arbiter, &mut application);
    let opened = arbiter.open(owner, key(), level).unwrap();
    let gate = map(opened.gate.unwrap());
    application.report(Report::Ready, opened.claim);
    (application, opened.claim, gate)
}

fn mask(arbiter: &Arbiter) -> u64 {
    arbiter.page().load(Word::ready(0))
}

fn refused(arbiter: &Arbiter) -> u64 {
    arbiter.page().load(Word::REFUSED)
}

#[needs(ROOT)]
fn a_report_is_visible_when_the_function_returns() {
    let pins = Pins::of("report");
    let mut arbiter = pins.arbiter(&Times::default());
    let (mut application, owner, claim) = ready(&mut arbiter, 4);
    assert!(!owner.is_proxied());
    application.report(Report::Idle, claim);
    assert_eq!(mask(&arbiter), 0);
    application.report(Report::Ready, claim);
    application.report(Report::Close, claim);
    assert_eq!((mask(&arbiter), arbiter.page().load(Word::exists(0))), (0, 0));
    let mut events = Vec::new();
    arbiter.drain(&mut events);
    let changes: Vec<_> = events.iter().map(|event| event.change).collect();
    let expected = [
        ArbiterChange::Obeyed,
        ArbiterChange::Joined,
        ArbiterChange::Opened,
        ArbiterChange::Ready,
        ArbiterChange::Idle,
        ArbiterChange::Ready,
        ArbiterChange::Closed,
    ];
    assert_eq!(changes, expected.map(|change| change as u32));
    assert_eq!(arbiter.page().load(Word::EVENTS_LOST), 0);
    arbiter.end();
    assert!(!pins.0.exists(), "a clean end leaves no pins");
}

#[needs(ROOT)]
fn gates_follow_reports_and_ends_of_processes_at_once() {
    let pins = Pins::of("gates");
    let mut arbiter = pins.arbiter(&Times::default());
    let (mut other, low, gate) = ready_with_gate(&mut arbiter, 9);
    assert_eq!(gate.load(Ordering::SeqCst), GATE_ALLOWED);
    let (mut urgent, high, own) = ready_with_gate(&mut arbiter, 4);
    assert_eq!((own.load(Ordering::SeqCst), gate.load(Ordering::SeqCst)), (GATE_ALLOWED, 0));
    urgent.report(Report::Idle, high);
    assert_eq!(gate.load(Ordering::SeqCst), GATE_ALLOWED);
    urgent.report(Report::Ready, high);
    assert_eq!(gate.load(Ordering::SeqCst), 0);
    urgent.kill();
    assert_eq!(gate.load(Ordering::SeqCst), GATE_ALLOWED);
    let (_urgent, ..) = ready_with_gate(&mut arbiter, 4);
    assert_eq!(gate.load(Ordering::SeqCst), 0);
    other.report(Report::Close, low);
    assert_eq!(gate.load(Ordering::SeqCst), GATE_ALLOWED);
    assert_eq!(arbiter.page().load(Word::EXHAUSTED), 0);
}

#[needs(ROOT)]
fn a_report_about_the_gate_of_another_process_is_refused() {
    let pins = Pins::of("gate-stranger");
    let mut arbiter = pins.arbiter(&Times::default());
    let (_urgent, ..) = ready_with_gate(&mut arbiter, 4);
    let (mut application, claim, gate) = ready_with_gate(&mut arbiter, 9);
    let mut stranger = Peer::application(&PEER);
    gate.store(GATE_ALLOWED | GATE_KEPT_OPEN, Ordering::SeqCst);
    let before = refused(&arbiter);
    stranger.report(Report::Gate, claim);
    join(&mut arbiter, &mut stranger);
    stranger.report(Report::Gate, claim);
    let stale = ClaimName { generation: claim.generation + 1, ..claim };
    application.report(Report::Gate, stale);
    assert_eq!(refused(&arbiter) - before, 3);
    assert_eq!(gate.load(Ordering::SeqCst), GATE_ALLOWED | GATE_KEPT_OPEN);
    application.report(Report::Gate, claim);
    assert_eq!((gate.load(Ordering::SeqCst), refused(&arbiter) - before), (GATE_KEPT_OPEN, 3));
}

#[needs(ROOT)]
fn a_killed_process_is_not_ready() {
    let pins = Pins::of("killed");
    let mut arbiter = pins.arbiter(&Times::default());
    let (mut application, owner, _) = ready(&mut arbiter, 4);
    application.kill();
    assert_eq!((mask(&arbiter), arbiter.page().load(Word::exists(0))), (0, 0));
    assert!(matches!(arbiter.open(owner, key(), 1), Err(ArbiterError::OwnerGone)));
    assert_eq!(arbiter.page().claims().count(), 0);
}

#[needs(ROOT)]
fn a_process_that_becomes_another_program_is_not_ready() {
    let pins = Pins::of("exec");
    let mut arbiter = pins.arbiter(&Times::default());
    let (mut application, _, claim) = ready(&mut arbiter, 4);
    assert_eq!(application.ask("exec"), "ready");
    assert_eq!(arbiter.page().claims().count(), 0);
    // The new program is unknown until it joins.
    application.report(Report::Ready, claim);
    assert_eq!(mask(&arbiter), 0);
    let owner = join(&mut arbiter, &mut application);
    let claim = arbiter.open(owner, key(), 4).unwrap().claim;
    application.report(Report::Ready, claim);
    assert_eq!(mask(&arbiter), 1 << 4);
}

#[needs(ROOT)]
fn a_process_lives_until_its_last_thread_has_ended() {
    let pins = Pins::of("thread");
    let mut arbiter = pins.arbiter(&Times::default());
    let (mut application, ..) = ready(&mut arbiter, 4);
    application.ask("end-first-thread");
    let task = format!("/proc/{0}/task/{0}/stat", application.pid());
    // It answers before its first thread ends.
    while !std::fs::read_to_string(&task).unwrap().contains(") Z") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(mask(&arbiter), 1 << 4);
    application.kill();
    assert_eq!(mask(&arbiter), 0);
}

#[needs(ROOT)]
fn a_report_for_another_process_is_refused() {
    let pins = Pins::of("stranger");
    let mut arbiter = pins.arbiter(&Times::default());
    let (mut application, _, claim) = ready(&mut arbiter, 4);
    application.report(Report::Idle, claim);
    let before = refused(&arbiter);
    // A child has its parent's memory, but not its claims.
    application.ask(&format!(
        "report-from-child {} {} {}",
        Report::Ready as u64,
        claim.slot,
        claim.generation
    ));
    let mut stranger = Peer::application(&PEER);
    stranger.report(Report::Ready, claim);
    stranger.ask(&format!("report {} 0 12345", Report::Join as u64));
    stranger.report(Report::Expire, claim);
    let other = join(&mut arbiter, &mut stranger);
    stranger.report(Report::Ready, claim);
    stranger.report(Report::Close, claim);
    assert_eq!((mask(&arbiter), refused(&arbiter) - before), (0, 6));
    assert!(arbiter.page().claim(claim.slot).word.is_open());
    // An old generation of a slot that now belongs to this process.
    arbiter.close(claim);
    let own = arbiter.open(other, key(), 1).unwrap().claim;
    assert_eq!(own.slot, claim.slot);
    stranger.report(Report::Ready, claim);
    assert_eq!(mask(&arbiter), 0);
}

#[needs(ROOT)]
fn orders_of_other_processes_than_the_controller_are_refused() {
    let pins = Pins::of("orders");
    let mut arbiter = pins.arbiter(&Times::default());
    let (_application, ..) = ready(&mut arbiter, 4);
    // The same program with the same memory, but another process.
    // SAFETY: the child only calls functions that load words, and ends.
    match unsafe { libc::fork() } {
        0 => {
            arbiter.release();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child, without its status.
        child => unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
    };
    assert!(arbiter.page().is_obeyed());
    assert_eq!((mask(&arbiter), refused(&arbiter)), (1 << 4, 1));
    let second = Arbiter::programs_pinned_at(&pins.0, &Times::default());
    let is_occupied = matches!(&second, Err(ArbiterError::Programs(ProgramsError::Occupied(_))));
    assert!(is_occupied, "{second:?}");
}

/// The token of a process makes it an application, and not the controller.
#[needs(ROOT)]
fn a_process_with_a_token_does_not_become_the_controller() {
    unsafe extern "C" {
        safe fn xsched_arbiter_control(operation: u64, slot: u64, first: u64, second: u64);
    }
    let pins = Pins::of("claim");
    let mut arbiter = pins.arbiter(&Times::default());
    let (application, ..) = ready(&mut arbiter, 4);
    let shim = arbiter.search(application.pid()).unwrap().run().unwrap().probe().unwrap();
    let token = arbiter.expect(shim).unwrap();
    // SAFETY: the child only calls a function without effect, and ends.
    match unsafe { libc::fork() } {
        0 => {
            xsched_arbiter_control(Control::BecomeController as u64, 0, token, 0);
            xsched_arbiter_control(Control::Release as u64, 0, 0, 0);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child, without its status.
        child => unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
    };
    assert_eq!(arbiter.page().load(Word::CONTROLLER), u64::from(std::process::id()));
    assert!(arbiter.page().is_obeyed());
    assert_eq!((mask(&arbiter), refused(&arbiter)), (1 << 4, 2));
}

#[needs(ROOT)]
fn a_claim_without_reports_expires_when_another_process_checks() {
    let pins = Pins::of("expire");
    let mut arbiter = pins.arbiter(&Times { lease: Duration::from_millis(1), ..Times::default() });
    let (_silent, _, claim) = ready(&mut arbiter, 4);
    let mut waiter = Peer::application(&PEER);
    join(&mut arbiter, &mut waiter);
    std::thread::sleep(Duration::from_millis(2));
    waiter.report(Report::Expire, claim);
    assert_eq!(mask(&arbiter), 0);
    assert_eq!(arbiter.page().load(Word::exists(0)), 1 << 4);
}

#[needs(ROOT)]
fn a_dead_controller_defers_no_launch_and_its_successor_finds_all_state() {
    let pins = Pins::of("successor");
    let mut controller = Peer::controller(&PEER, &pins.0);
    let mut application = Peer::application(&PEER);
    let number = controller.ask(&format!("expect {}", application.pid()));
    application.ask(&format!("report {} 0 {number}", Report::Join as u64));
    let owner = controller.ask(&format!("joined {number}"));
    let opened = controller.ask(&format!("open {owner} {} 4", key()));
    let (slot, generation) = opened.split_once(' ').unwrap();
    let claim = ClaimName { slot: slot.parse().unwrap(), generation: generation.parse().unwrap() };
    let pages = Map::ArrayOfMaps(MapData::from_pin(pins.0.join("gates")).unwrap());
    let pages: ArrayOfMaps<_> = pages.try_into().unwrap();
    let gate = map(pages.get(&claim.slot, 0).unwrap().fd());
    controller.kill();
    // No controller maintains the page now; the programs still count reports.
    application.report(Report::Ready, claim);
    let mut arbiter = Arbiter::programs_pinned_at(&pins.0, &Times::default()).unwrap();
    assert!(!arbiter.page().is_obeyed());
    assert_eq!((mask(&arbiter), arbiter.page().load(Word::EPOCH)), (0, 2));
    arbiter.heartbeat();
    assert_eq!(mask(&arbiter), 1 << 4);
    let found: Vec<_> = arbiter.page().claims().map(|claim| (claim.slot, claim.owner)).collect();
    assert_eq!(found, [(claim.slot, owner.parse().unwrap())]);
    arbiter.set_level(claim, 2).unwrap();
    application.report(Report::Ready, claim);
    assert_eq!((mask(&arbiter), gate.load(Ordering::SeqCst)), (1 << 2, GATE_ALLOWED));
    let (mut urgent, ..) = ready_with_gate(&mut arbiter, 1);
    assert_eq!(gate.load(Ordering::SeqCst), 0, "a claim from before keeps its gate page");
    urgent.kill();
    assert_eq!(gate.load(Ordering::SeqCst), GATE_ALLOWED);
    // The programs have outlived the controller that loaded them, so they outlive this process too.
    application.kill();
    assert_eq!(mask(&arbiter), 0);
}

#[needs(ROOT)]
fn a_process_that_has_left_frees_its_slot_and_can_rejoin() {
    let pins = Pins::of("left");
    let mut arbiter = pins.arbiter(&Times::default());
    let (mut application, owner, claim) = ready(&mut arbiter, 4);
    assert_eq!(arbiter.owners(), [owner]);
    arbiter.gone(owner);
    assert_eq!((mask(&arbiter), arbiter.page().claims().count(), arbiter.owners()), (0, 0, vec![]));
    // The programs have forgotten the process, which still runs.
    let opened = arbiter.open(owner, key(), 4);
    assert!(matches!(opened, Err(ArbiterError::OwnerGone)), "{opened:?}");
    application.report(Report::Ready, claim);
    assert_eq!(join(&mut arbiter, &mut application), owner);
    let claim = arbiter.open(owner, key(), 4).unwrap().claim;
    application.report(Report::Ready, claim);
    assert_eq!(mask(&arbiter), 1 << 4);
    application.kill();
    assert_eq!(mask(&arbiter), 0);
}

#[needs(ROOT)]
fn a_process_does_not_join_a_full_table() {
    let pins = Pins::of("full");
    let mut arbiter = pins.arbiter(&Times::default());
    let mut application = Peer::application(&PEER);
    let map = MapData::from_pin(pins.0.join("owners")).unwrap();
    let mut owners: HashMap<_, u64, u64> = Map::HashMap(map).try_into().unwrap();
    // No process has such an id.
    let others: Vec<_> = (1 << 40..1 << 41).take_while(|&other| owners.insert(other, 0, 0).is_ok()).collect();
    let shim = arbiter.search(application.pid()).unwrap().run().unwrap().probe().unwrap();
    let number = arbiter.expect(shim).unwrap();
    let before = refused(&arbiter);
    application.ask(&format!("report {} 0 {number}", Report::Join as u64));
    assert_eq!((refused(&arbiter) - before, arbiter.joined(number)), (1, None), "{} are there", others.len());
    owners.remove(&others[0]).unwrap();
    let owner = join(&mut arbiter, &mut application);
    assert!(arbiter.open(owner, key(), 4).is_ok());
}

#[needs(ROOT)]
fn a_process_without_the_shim_is_recognised() {
    let pins = Pins::of("without");
    let arbiter = pins.arbiter(&Times::default());
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let error = arbiter.search(child.id()).unwrap().run();
    child.kill().unwrap();
    child.wait().unwrap();
    let is_without = matches!(&error, Err(ProgramsError::NoShim { .. }));
    assert!(is_without, "{error:?}");
    let gone = arbiter.search(child.id()).unwrap().run();
    assert!(matches!(&gone, Err(ProgramsError::Mappings { .. })), "{gone:?}");
    assert!(Path::new(&pins.0).exists());
}

fn main() -> ExitCode {
    xsched_harness::main()
}
