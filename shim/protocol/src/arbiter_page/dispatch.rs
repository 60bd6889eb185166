//! What each report and each control operation does: it changes the page and emits an event about the change.
//!
//! [`Report::Join`] and [`Control::BecomeController`] establish the caller's identity. Only the programs need that, so they handle both.

#![expect(clippy::inline_always, reason = "a call costs a BPF program stack space and the verifier time")]

use super::protocol::{self, Caller, Change, Refusal, Wakes};
use super::{
    ALL_GATES, ArbiterChange, ArbiterEvent, CLAIM_MAX, ClaimWord, Control, DEVICE_MAX, PROXIED, Report, Word,
    Words,
};

/// Keeps a page.
pub trait Host: Words {
    /// The time, on the clock of the page.
    fn now_ns(&self) -> u64;

    /// Whether the process that a claim is opened for still exists.
    fn lives(&self, owner: u64) -> bool;

    /// Emits an event about a change. With `calls` it wakes the controller, if that listens.
    fn emit(&self, event: ArbiterEvent, calls: bool);

    /// Wakes the processes that wait for changes of a device.
    fn wake(&self, device: u64);

    /// [`protocol::refresh`]
    #[inline(always)]
    fn refresh(&self, device: u64) -> bool
    where
        Self: Sized,
    {
        protocol::refresh(self, device)
    }

    /// [`close_one`]
    #[inline(always)]
    fn close_one(&self, slot: u64, owner: u64)
    where
        Self: Sized,
    {
        close_one(self, slot, owner);
    }
}

/// A process reports.
#[inline(always)]
pub fn report<H: Host>(host: &H, owner: u64, report: Report, slot: u64, argument: u64) {
    let generation = argument as u32;
    let caller = Caller::Process(owner);
    let now_ns = host.now_ns();
    match report {
        Report::Ready => {
            let outcome = protocol::ready(host, slot, generation, caller, now_ns);
            // A renewal changes no mask.
            if outcome.is_err() || outcome.is_ok_and(|change| !change.old.is_ready()) {
                finish(host, ArbiterChange::Ready, slot, owner, outcome);
            }
        }
        Report::Idle => {
            let outcome = protocol::idle(host, slot, generation, caller);
            finish(host, ArbiterChange::Idle, slot, owner, outcome);
        }
        Report::Close => {
            let outcome = protocol::close(host, slot, generation, caller);
            finish(host, ArbiterChange::Closed, slot, owner, outcome);
        }
        Report::Expire => {
            let outcome = protocol::expire(host, slot, generation, now_ns);
            finish(host, ArbiterChange::Expired, slot, owner, outcome);
        }
        Report::Check => {
            if protocol::check(host, now_ns) {
                released(host, owner);
            }
        }
        Report::Gate => match protocol::gate(host, slot, generation, caller) {
            // Any thread of the process may have asked; the one that sleeps may be another.
            Ok(true) => {
                let word = ClaimWord(host.load(Word::claim(slot)));
                emit(
                    host,
                    ArbiterChange::Repaired,
                    owner,
                    slot,
                    word,
                    Wakes { processes: true, controller: false },
                );
            }
            Ok(false) => {}
            Err(_) => host.add(Word::REFUSED, 1),
        },
        Report::Join => {}
    }
}

/// A control operation of the controller.
#[inline(always)]
pub fn control<H: Host>(host: &H, owner: u64, control: Control, slot: u64, first: u64, second: u64) {
    let generation = first as u32;
    match control {
        Control::Heartbeat => {
            if protocol::obey(host, host.now_ns()) {
                refresh_all(host);
                emit(host, ArbiterChange::Obeyed, owner, 0, ClaimWord::default(), CONTROLLER);
            }
        }
        Control::Release => {
            if protocol::release(host) {
                released(host, owner);
            }
        }
        // Only the controller assigns entries, and it opens no claim meanwhile.
        Control::AddDevice => host.store(Word::key(slot), first),
        // Likewise. It has seen that the block has no open claim.
        Control::ClearBlock => host.store(Word::block(slot), 0),
        Control::Open => {
            let outcome = protocol::open(host, slot, ClaimWord(first), second, || host.lives(second));
            finish(host, ArbiterChange::Opened, slot, second, outcome);
        }
        Control::Close => {
            let outcome = protocol::close(host, slot, generation, Caller::Controller);
            finish(host, ArbiterChange::Closed, slot, owner, outcome);
        }
        Control::SetLevel => {
            let outcome = protocol::set_level(host, slot, generation, second);
            finish(host, ArbiterChange::Level, slot, owner, outcome);
        }
        Control::Listen => host.store(Word::LISTENS, first),
        Control::SetTimes => {
            host.store(Word::LEASE, first);
            host.store(Word::LINGER, second);
        }
        Control::Expire => {
            let outcome = protocol::expire(host, slot, generation, host.now_ns());
            finish(host, ArbiterChange::Expired, slot, owner, outcome);
        }
        Control::ProxyReport => {
            let process = host.load(Word::owner(slot));
            match Report::from_number(first) {
                Some(kind) if process & PROXIED != 0 => report(host, process, kind, slot, second),
                _ => host.add(Word::REFUSED, 1),
            }
        }
        Control::Gone => close_all(host, first),
        Control::Repair => {
            let changed = host.refresh(slot);
            if host.follow_gates(slot, ALL_GATES) || changed {
                emit(host, ArbiterChange::Repaired, owner, 0, ClaimWord::new(0, slot, 0), Wakes::ALL);
            }
        }
        Control::BecomeController => {}
    }
}

/// Closes all claims of a process that has ended. Its end must have been noted before: see [`protocol::open`].
#[inline(always)]
pub fn close_all<H: Host>(host: &H, owner: u64) {
    for slot in 0..protocol::slots(host) {
        host.close_one(slot, owner);
    }
}

/// Closes the claim in a slot if it belongs to a process that has ended.
#[inline(always)]
pub fn close_one<H: Host>(host: &H, slot: u64, owner: u64) {
    if let Ok(change) = protocol::close_of(host, slot, owner) {
        emit(host, ArbiterChange::Died, owner, slot, change.new, change.wakes);
    }
}

/// After the controller is gone: clears all ready masks.
#[inline(always)]
pub fn released<H: Host>(host: &H, owner: u64) {
    refresh_all(host);
    emit(host, ArbiterChange::Released, owner, 0, ClaimWord::default(), CONTROLLER);
}

/// Processes were woken before.
const CONTROLLER: Wakes = Wakes { processes: false, controller: true };

#[inline(always)]
fn refresh_all<H: Host>(host: &H) {
    for device in 0..DEVICE_MAX as u64 {
        host.refresh(device);
        host.wake(device);
    }
}

#[inline(always)]
fn finish<H: Host>(host: &H, kind: ArbiterChange, slot: u64, owner: u64, outcome: Result<Change, Refusal>) {
    match outcome {
        Ok(change) => emit(host, kind, owner, slot, change.new, change.wakes),
        Err(Refusal::Refused) => host.add(Word::REFUSED, 1),
        // `Exhausted` is counted where it occurs; `Unchanged` is no event.
        Err(Refusal::Exhausted | Refusal::Unchanged) => {}
    }
}

#[inline(always)]
fn emit<H: Host>(host: &H, kind: ArbiterChange, owner: u64, slot: u64, word: ClaimWord, wakes: Wakes) {
    let event = ArbiterEvent {
        time_ns: host.now_ns(),
        change: kind as u32,
        slot: slot as u32 & (CLAIM_MAX as u32 - 1),
        word: word.0,
        ready: host.load(Word::ready(word.device())),
        owner,
    };
    host.emit(event, wakes.controller);
    if wakes.processes {
        host.wake(word.device());
    }
}
