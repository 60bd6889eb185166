use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use xsched_protocol::arbiter_page::{
    AtomicWords, PAGE_MAGIC, PAGE_VERSION, PAGE_WORDS, Page, Words, device_key, protocol,
};

use super::*;

/// An arbiter in this process: the page, changed by the protocol's own code.
struct Arbiter(AtomicWords<'static>);

const DEVICE: u64 = 3;

impl Arbiter {
    fn new() -> (Self, Link) {
        let file = memfd_create("page", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, size_of::<Page>() as u64).unwrap();
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, never taken back, as long as the page.
        let page = unsafe {
            let at = mmap(std::ptr::null_mut(), size_of::<Page>(), access, MapFlags::SHARED, &file, 0);
            &*at.unwrap().cast::<[AtomicU64; PAGE_WORDS]>()
        };
        let words = AtomicWords::new(page);
        words.store(Word::MAGIC, PAGE_MAGIC);
        words.store(Word::VERSION, PAGE_VERSION);
        words.store(Word::LEASE, 1_000_000);
        words.store(Word::key(DEVICE), device_key(0, 1, 2, 0));
        protocol::obey(&words, 1);
        let link = Link::new(|_| {});
        link.page.replace(file).unwrap();
        link.put_in_force(true);
        (Self(words), link)
    }

    fn open(&self, index: u32, level: u64) -> Slot {
        let word = ClaimWord::new(1, DEVICE, level);
        protocol::open(&self.0, index.into(), word, 7, || true).unwrap();
        Slot { index, generation: 1, keeper: Keeper::Controller }
    }

    fn ready(&self, slot: Slot) {
        protocol::ready(&self.0, slot.index.into(), 1, protocol::Caller::Controller, 0).unwrap();
    }
}

#[test]
fn the_admission_state_follows_the_page() {
    let (arbiter, link) = Arbiter::new();
    let own = arbiter.open(0, 5);
    assert_eq!(link.state_of(own), AdmissionState::Alone);
    arbiter.ready(own);
    assert_eq!(link.state_of(own), AdmissionState::Alone, "its own readiness is none of its business");
    let peer = arbiter.open(1, 5);
    let limited = AdmissionState::Below { preempted: false };
    assert_eq!((link.state_of(own), link.state_of(peer)), (limited, limited));
    let urgent = arbiter.open(2, 1);
    assert_eq!(link.state_of(urgent), AdmissionState::Beside, "the first level is not limited");
    arbiter.ready(urgent);
    assert!(link.state_of(own).is_preempted() && !link.state_of(urgent).is_preempted());
    protocol::set_level(&arbiter.0, 2, 1, 9).unwrap();
    assert_eq!(link.state_of(own), limited);
    assert!(link.state_of(urgent).is_preempted());
    let sliced = arbiter.open(3, 0);
    protocol::set_level(&arbiter.0, 2, 1, 1).unwrap();
    assert_eq!(link.state_of(urgent), AdmissionState::Beside);
    arbiter.ready(sliced);
    assert!(link.state_of(urgent).is_preempted(), "a time slice comes before all");
}

#[test]
fn under_an_observing_controller_nothing_is_preempted() {
    let (arbiter, link) = Arbiter::new();
    let (own, urgent) = (arbiter.open(0, 5), arbiter.open(1, 1));
    protocol::release(&arbiter.0);
    link.connect(None, true);
    link.judge_heartbeat(true);
    arbiter.ready(urgent);
    assert_eq!((link.state_of(own), link.state_of(urgent)), (AdmissionState::Beside, AdmissionState::Beside));
    link.connect(None, false);
    link.judge_heartbeat(true);
    assert_eq!(link.state_of(own), AdmissionState::Alone, "this controller hangs, or is off");
}

#[test]
fn a_page_that_is_not_in_force_preempts_nothing() {
    let (arbiter, link) = Arbiter::new();
    let (own, urgent) = (arbiter.open(0, 5), arbiter.open(1, 0));
    arbiter.ready(urgent);
    assert!(link.state_of(own).is_preempted());
    link.put_in_force(false);
    assert_eq!(link.state_of(own), AdmissionState::Alone);
    link.put_in_force(true);
    link.connect(None, true);
    assert_eq!(link.state_of(own), AdmissionState::Beside, "the controller only observes");
    link.connect(None, false);
    protocol::release(&arbiter.0);
    protocol::refresh(&arbiter.0, DEVICE);
    assert_eq!(link.state_of(own), AdmissionState::Beside, "it still reports, for a successor");
    let gone = Slot { generation: 2, ..own };
    assert_eq!(link.state_of(gone), AdmissionState::Alone);
}
