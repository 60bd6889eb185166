//! The gates of claims, seen by a process that maps its gate page.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xsched_arbiter::{Arbiter, ClaimName, Opened, Owner};
use xsched_protocol::arbiter_page::{
    CLAIM_MAX, GATE_ALLOWED, GATE_CLOSED_AT, GATE_KEPT_OPEN, GATE_OPENED_AT, GATE_QUIET, GATE_SIZE,
    GATE_WISHES, Report, Word,
};

use super::{Kind, key, now_ns, ready, wait, waiter};

/// A gate page, mapped for the duration of the test.
#[derive(Clone, Copy)]
struct Gate(&'static [AtomicU64; GATE_SIZE / 8]);

impl Gate {
    fn map(page: &OwnedFd) -> Self {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this creates a new mapping at an address of the kernel's choice, which is never unmapped.
        Self(unsafe {
            let at = mmap(std::ptr::null_mut(), GATE_SIZE, access, MapFlags::SHARED, page.as_fd(), 0);
            &*at.expect("a gate page has this size").cast()
        })
    }

    fn word(self) -> u64 {
        self.0[0].load(Ordering::SeqCst)
    }
}

/// Opens a claim; returns it with its gate.
fn open(arbiter: &mut Arbiter, owner: Owner, level: u8) -> (ClaimName, Gate) {
    let Opened { claim, gate } = arbiter.open(owner, key(), level).expect("the page is not full");
    (claim, Gate::map(&gate.expect("the page was created")))
}

/// Two ready claims, one at level 3 and one at level 7.
fn urgent_and_other(arbiter: &mut Arbiter) -> ((Owner, ClaimName, Gate), (Owner, ClaimName, Gate)) {
    let (a, b) = (arbiter.speak_for(100), arbiter.speak_for(200));
    let (urgent, first) = open(arbiter, a, 3);
    let (other, second) = open(arbiter, b, 7);
    assert_eq!((first.word(), second.word()), (GATE_ALLOWED, GATE_ALLOWED));
    ready(arbiter, a, urgent);
    ready(arbiter, b, other);
    assert_eq!((first.word(), second.word()), (GATE_ALLOWED, 0));
    ((a, urgent, first), (b, other, second))
}

pub(crate) fn a_gate_is_closed_while_a_more_urgent_claim_has_work(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((a, urgent, first), (_, _, second)) = urgent_and_other(&mut arbiter);
        for _ in 0..3 {
            arbiter.report(a, Report::Idle, urgent.slot, u64::from(urgent.generation));
            assert_eq!(second.word(), GATE_ALLOWED);
            ready(&mut arbiter, a, urgent);
            assert_eq!((first.word(), second.word()), (GATE_ALLOWED, 0));
        }
        // Claims that are opened now have the same states.
        let (_, third) = open(&mut arbiter, a, 7);
        let (_, fourth) = open(&mut arbiter, a, 3);
        assert_eq!((third.word(), fourth.word()), (0, GATE_ALLOWED));
        let elsewhere = arbiter.open(a, key() + 1, 7).unwrap();
        assert_eq!(Gate::map(&elsewhere.gate.unwrap()).word(), GATE_ALLOWED);
    });
}

pub(crate) fn gates_follow_levels(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((_, urgent, first), (_, other, second)) = urgent_and_other(&mut arbiter);
        arbiter.set_level(urgent, 7).unwrap();
        assert_eq!((first.word(), second.word()), (GATE_ALLOWED, GATE_ALLOWED));
        arbiter.set_level(urgent, 8).unwrap();
        assert_eq!((first.word(), second.word()), (0, GATE_ALLOWED));
        arbiter.set_level(other, 63).unwrap();
        assert_eq!((first.word(), second.word()), (GATE_ALLOWED, 0));
        arbiter.set_level(other, 0).unwrap();
        assert_eq!((first.word(), second.word()), (0, GATE_ALLOWED));
    });
}

pub(crate) fn gates_open_when_the_urgent_claim_or_process_ends(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((_, urgent, first), (_, other, second)) = urgent_and_other(&mut arbiter);
        arbiter.close(urgent);
        assert_eq!((first.word(), second.word()), (GATE_ALLOWED, GATE_ALLOWED));
        arbiter.close(other);
        let ((a, _, _), (b, _, second)) = urgent_and_other(&mut arbiter);
        arbiter.gone(a);
        assert_eq!(second.word(), GATE_ALLOWED);
        let ((_, _, first), (_, _, third)) = urgent_and_other(&mut arbiter);
        assert_eq!((first.word(), second.word(), third.word()), (GATE_ALLOWED, GATE_ALLOWED, 0));
        arbiter.gone(b);
        assert_eq!(third.word(), GATE_ALLOWED, "the process's claim is closed");
    });
}

pub(crate) fn gates_are_open_while_the_page_is_not_in_force(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let (_, (_, _, second)) = urgent_and_other(&mut arbiter);
        arbiter.release();
        assert_eq!(second.word(), GATE_ALLOWED);
        arbiter.heartbeat();
        assert_eq!(second.word(), 0);
    });
}

pub(crate) fn bits_and_words_of_the_process_are_kept(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((a, urgent, _), (_, _, second)) = urgent_and_other(&mut arbiter);
        second.0[0].fetch_or(GATE_KEPT_OPEN | 1 << 63, Ordering::SeqCst);
        // After the times, which the arbiter writes.
        let others = || second.0.iter().skip(GATE_OPENED_AT + 1);
        others().for_each(|word| word.store(7, Ordering::SeqCst));
        arbiter.report(a, Report::Idle, urgent.slot, u64::from(urgent.generation));
        assert_eq!(second.word(), GATE_ALLOWED | GATE_KEPT_OPEN | 1 << 63);
        ready(&mut arbiter, a, urgent);
        assert_eq!(second.word(), GATE_KEPT_OPEN | 1 << 63);
        assert!(others().all(|word| word.load(Ordering::SeqCst) == 7));
    });
}

pub(crate) fn a_process_can_have_its_own_gate_corrected(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((a, urgent, first), (b, other, second)) = urgent_and_other(&mut arbiter);
        first.0[0].store(0, Ordering::SeqCst);
        second.0[0].store(GATE_ALLOWED, Ordering::SeqCst);
        let mut report = |owner, claim: ClaimName| {
            arbiter.report(owner, Report::Gate, claim.slot, u64::from(claim.generation));
        };
        report(a, other);
        report(b, urgent);
        report(a, ClaimName { generation: urgent.generation + 1, ..urgent });
        report(a, ClaimName { slot: other.slot + CLAIM_MAX as u32, ..other });
        assert_eq!((first.word(), second.word()), (0, GATE_ALLOWED), "the claims belong to other processes");
        report(a, urgent);
        report(b, other);
        assert_eq!((first.word(), second.word()), (GATE_ALLOWED, 0));
    });
}

pub(crate) fn the_next_claim_of_a_slot_has_a_new_page(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((a, urgent, first), (b, other, second)) = urgent_and_other(&mut arbiter);
        second.0[GATE_WISHES].store(7, Ordering::SeqCst);
        for _ in 0..20 {
            arbiter.close(other);
            let (again, third) = open(&mut arbiter, b, 9);
            assert_eq!(
                (again.slot, third.word(), third.0[GATE_WISHES].load(Ordering::SeqCst)),
                (other.slot, 0, 0)
            );
            assert_eq!((first.word(), second.word()), (GATE_ALLOWED, GATE_ALLOWED));
            arbiter.close(again);
            assert_eq!(third.word(), GATE_ALLOWED);
        }
        arbiter.report(a, Report::Idle, urgent.slot, u64::from(urgent.generation));
        assert_eq!(first.word(), GATE_ALLOWED);
    });
}

pub(crate) fn a_gate_page_has_the_times_of_closing_and_opening(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((a, urgent, _), (_, _, second)) = urgent_and_other(&mut arbiter);
        let times = || [GATE_CLOSED_AT, GATE_OPENED_AT].map(|word| second.0[word].load(Ordering::SeqCst));
        let mut before = now_ns();
        for _ in 0..3 {
            arbiter.report(a, Report::Idle, urgent.slot, u64::from(urgent.generation));
            let [closed, opened] = times();
            assert!(closed < before && (before..=now_ns()).contains(&opened), "{before} {closed} {opened}");
            before = now_ns();
            ready(&mut arbiter, a, urgent);
            let [closed, opened] = times();
            assert!(opened < before && (before..=now_ns()).contains(&closed), "{before} {closed} {opened}");
            before = now_ns();
        }
    });
}

pub(crate) fn a_quiet_process_is_woken_only_when_its_gate_opens(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((a, urgent, _), (b, other, second)) = urgent_and_other(&mut arbiter);
        ready(&mut arbiter, b, other);
        let waiter = waiter(&mut arbiter, &[other]);
        for (asks, is_woken) in [(0, true), (GATE_QUIET, false)] {
            second.0[GATE_WISHES].store(asks, Ordering::SeqCst);
            arbiter.report(a, Report::Idle, urgent.slot, u64::from(urgent.generation));
            assert!(wait(&waiter, 0).unwrap());
            ready(&mut arbiter, a, urgent);
            assert_eq!(wait(&waiter, 0).unwrap(), is_woken);
        }
    });
}

pub(crate) fn a_gate_page_cannot_be_truncated(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let owner = arbiter.speak_for(100);
        let page = arbiter.open(owner, key(), 3).unwrap().gate.unwrap();
        assert!(rustix::fs::ftruncate(&page, 0).is_err());
    });
}

pub(crate) fn a_claim_without_a_gate_page_works(kind: Kind) {
    kind.run_obeyed(|mut arbiter| {
        let ((a, urgent, _), (b, other, second)) = urgent_and_other(&mut arbiter);
        arbiter.close(other);
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
        let opened = arbiter.open(b, key(), 9);
        setrlimit(Resource::Nofile, limit).unwrap();
        let Opened { claim, gate } = opened.unwrap();
        assert!(gate.is_err(), "{gate:?}");
        assert_eq!(claim.slot, other.slot);
        ready(&mut arbiter, b, claim);
        assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 3 | 1 << 9);
        assert_eq!(second.word(), GATE_ALLOWED, "the page of the last claim does not belong to it");
        arbiter.report(b, Report::Gate, claim.slot, u64::from(claim.generation));
        arbiter.report(a, Report::Idle, urgent.slot, u64::from(urgent.generation));
        assert_eq!((second.word(), arbiter.page().load(Word::EXHAUSTED)), (GATE_ALLOWED, 0));
    });
}
