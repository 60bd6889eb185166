//! Words that gates wait for: a device's signals, which all of its processes have mapped, or memory of one of
//! them.
//!
//! Memory that a process registers need not be mapped by others, or even mappable by them: it may be a BPF
//! map. So they read the word in the owner's memory, with `process_vm_readv(2)`. The process is identified by
//! its guard's thread id, which is valid as long as the process lives, even if its first thread has ended.
//! But ids differ between pid namespaces, so each process has a random number in its memory and publishes the
//! number and its address in the region. One call reads both:
//!
//! ```text
//! region: member m { guard's thread, proof's address, proof } --- process_vm_readv(thread) ---> { proof, word }
//!                                                                  not the proof: another process, ignored
//! ```
//!
//! A process may be unable to read a word: it belongs to another user, runs in another pid namespace, or a
//! policy (Yama, seccomp) forbids it. It then takes the gate to be closed. The gate opens when a process that
//! can read it does: its owner, which polls it (`poll_interval`). The gate of a dead process stays closed
//! until the process's queues are removed, which happens at once, so none of its packets start.
//!
//! The call takes some microseconds, and every launch advances the timeline. So a process that found a gate
//! in another's memory closed takes it to be closed for a short time, in which the owner polls it.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use super::Device;
use super::region::MemberSlot;
use crate::engine::clock;
use crate::engine::gate::WordLocation;
use crate::engine::schedule::{GateState, Packet, Packets, QUEUES};

/// How long another process's memory is not read again. A process that launches continuously can spare two or
/// three microseconds in each such period; after a long wait the owner itself polls no more often.
const RECHECK_NS: u64 = 25_000;

/// When this process last found a queue's gate in another's memory closed.
#[derive(Default)]
struct LastCheck {
    /// The gate's ticket plus one.
    ticket: AtomicU64,
    time_ns: AtomicU64,
}

/// One entry for each queue. One thread of the process advances the schedule at a time.
pub(super) struct LastChecks(Vec<LastCheck>);

impl LastChecks {
    pub(super) fn new() -> Self {
        Self((0..QUEUES).map(|_| LastCheck::default()).collect())
    }

    /// Whether the gate was found closed a moment ago.
    fn is_recent(&self, queue: usize, ticket: u64) -> bool {
        let check = &self.0[queue];
        check.ticket.load(Ordering::Relaxed) == ticket + 1
            && clock::now_ns() < check.time_ns.load(Ordering::Relaxed) + RECHECK_NS
    }

    /// Notes that the gate was found closed now.
    fn note(&self, queue: usize, ticket: u64) {
        self.0[queue].ticket.store(ticket + 1, Ordering::Relaxed);
        self.0[queue].time_ns.store(clock::now_ns(), Ordering::Relaxed);
    }
}

/// A random number; no other process has the same number at its address.
pub(super) struct Proof(AtomicU64);

impl Proof {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().build_hasher().finish()))
    }
}

/// The region's packets and gates, for advancing the timeline once.
pub(super) struct RegionPackets<'a> {
    device: &'a Device,
    /// The far word that was read last, because many gates often wait for the same one.
    last: Cell<Option<(WordLocation, bool, Option<u64>)>>,
}

impl<'a> RegionPackets<'a> {
    pub(super) fn new(device: &'a Device) -> Self {
        Self { device, last: Cell::new(None) }
    }

    /// Like [`Device::word`], with a cache.
    fn far_word(&self, location: WordLocation, is_64_bit: bool) -> Option<u64> {
        if let Some((known, width, word)) = self.last.get()
            && (known, width) == (location, is_64_bit)
        {
            return word;
        }
        let word = self.device.word(location, is_64_bit);
        self.last.set(Some((location, is_64_bit, word)));
        word
    }
}

impl Packets for RegionPackets<'_> {
    fn pending(&self, queue: usize, ticket: u64) -> Option<Packet> {
        self.device.region().pending(queue, ticket)
    }

    fn gate(&self, queue: usize, ticket: u64) -> GateState {
        // None if another packet was posted meanwhile; a result based on this is not committed.
        let Some(gate) = self.device.region().gate(queue, ticket) else { return GateState::Closed };
        let is_far =
            matches!(gate.location, WordLocation::Memory { member, .. } if member != self.device.member());
        if !is_far {
            let word = self.device.word(gate.location, gate.is_64_bit);
            return GateState::of(word.is_some_and(|word| gate.is_open(word)));
        }
        if self.device.last_checks.is_recent(queue, ticket) {
            return GateState::Closed;
        }
        let is_open = self.far_word(gate.location, gate.is_64_bit).is_some_and(|word| gate.is_open(word));
        if !is_open {
            self.device.last_checks.note(queue, ticket);
        }
        GateState::of(is_open)
    }
}

impl Device {
    /// Publishes this process's proof, whose address must not change afterwards. A member calls this before
    /// it posts anything.
    pub(super) fn publish_proof(&self) {
        let slot = &self.region().members[self.member()];
        slot.proof_address.store((&raw const self.proof).expose_provenance() as u64, Ordering::Relaxed);
        slot.proof.store(self.proof.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The location of a word of this process; none if it cannot be encoded for other processes.
    pub(crate) fn word_location(&self, address: usize) -> Option<WordLocation> {
        match self.find_signal(address) {
            Some((index, offset)) => Some(WordLocation::Signal { index, is_upper: offset != 0 }),
            None => WordLocation::in_memory(self.member(), address),
        }
    }

    /// None if this process cannot read it.
    fn word(&self, location: WordLocation, is_64_bit: bool) -> Option<u64> {
        match location {
            WordLocation::Signal { index, is_upper } => {
                let signal = self.region().signals.get(index as usize)?.load(Ordering::Acquire);
                Some(match (is_64_bit, is_upper) {
                    (true, _) => signal,
                    (false, false) => signal & u64::from(u32::MAX),
                    (false, true) => signal >> 32,
                })
            }
            // SAFETY: HIP knew the memory when the packet was made, and the application keeps it until the stream is done.
            WordLocation::Memory { member, address } if member == self.member() => unsafe {
                Some(if is_64_bit {
                    AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(address)).load(Ordering::Acquire)
                } else {
                    let word = AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address));
                    u64::from(word.load(Ordering::Acquire))
                })
            },
            WordLocation::Memory { member, address } => {
                read_of(self.region().members.get(member)?, address, if is_64_bit { 8 } else { 4 })
            }
        }
    }
}

/// Reads an aligned word of at most eight bytes in a member's memory.
fn read_of(member: &MemberSlot, address: usize, size: usize) -> Option<u64> {
    const PROOF_SIZE: usize = size_of::<u64>();
    let process = member.guard()?.as_raw_nonzero().get();
    let (mut proof, mut word) = (0_u64, 0_u64);
    let here = [((&raw mut proof).cast(), PROOF_SIZE), ((&raw mut word).cast(), size)];
    let proof_address = member.proof_address.load(Ordering::Relaxed) as usize;
    let there = [(proof_address, PROOF_SIZE), (address, size)];
    let here = here.map(|(iov_base, iov_len)| libc::iovec { iov_base, iov_len });
    let there = there
        .map(|(base, iov_len)| libc::iovec { iov_base: ptr::with_exposed_provenance_mut(base), iov_len });
    // SAFETY: it writes to the two words here, and reads what the other process has, or fails.
    let read = unsafe { libc::process_vm_readv(process, here.as_ptr(), 2, there.as_ptr(), 2, 0) };
    let is_whole = usize::try_from(read) == Ok(PROOF_SIZE + size);
    (is_whole && proof == member.proof.load(Ordering::Relaxed)).then_some(word)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use super::super::file::Access;
    use super::*;
    use crate::engine::gate::{Condition, Gate};
    use crate::engine::schedule::Part;

    /// Two members of one device: each treats the other as another process.
    fn two(test: &str) -> [Arc<Device>; 2] {
        let path = std::env::temp_dir().join(format!("hip-sim-test-{}-{test}", std::process::id()));
        let devices = [(); 2].map(|()| Device::shared(0, &path, Access::User).unwrap());
        std::fs::remove_file(path).unwrap();
        devices
    }

    /// A queue of `owner` with a kernel of 1 ms, a gate that waits for a word to be one, and another kernel,
    /// all long due. The owner posts them without advancing the schedule, as if it had been stopped then.
    fn gated(owner: &Arc<Device>, word: &AtomicU64) -> usize {
        let queue = owner.take_queue(Part::Compute).unwrap().index();
        let now_ns = clock::now_ns();
        let kernel = Packet { ready_ns: now_ns, duration_ns: 1_000_000, units: 1, is_gate: false };
        let location = owner.word_location((&raw const *word).expose_provenance()).unwrap();
        let gate = Gate { location, is_64_bit: true, condition: Condition::Equal, value: 1, mask: u64::MAX };
        let packet = Packet { ready_ns: now_ns, duration_ns: 0, units: 0, is_gate: true };
        for (packet, gate) in [(kernel, None), (packet, Some(gate)), (kernel, None)] {
            owner.region().post(queue, packet, gate);
        }
        clock::sleep_until(now_ns + 10_000_000);
        queue
    }

    /// When the three packets started, if they have, after `player` has advanced the schedule.
    fn starts_ns(player: &Device, queue: usize) -> [Option<u64>; 3] {
        player.play();
        [0, 1, 2].map(|ticket| player.last_seen().schedule.start_ns(queue, ticket))
    }

    #[test]
    fn words_are_read_in_other_processes_memory() {
        let [owner, other] = two("words");
        let words = [AtomicU64::new(7), AtomicU64::new(5 << 32 | 2)];
        let location = |offset| owner.word_location((&raw const words).expose_provenance() + offset).unwrap();
        for player in [&owner, &other] {
            assert_eq!(player.word(location(0), true), Some(7));
            assert_eq!([8, 12].map(|offset| player.word(location(offset), false)), [Some(2), Some(5)]);
        }
        let nowhere = WordLocation::in_memory(owner.member(), 8).unwrap();
        assert_eq!(other.word(nowhere, true), None);
        let no_member = WordLocation::in_memory(63, 8).unwrap();
        assert_eq!(other.word(no_member, true), None);
    }

    #[test]
    fn each_half_of_a_signal_is_a_32_bit_word() {
        let device = Device::private(0);
        let signal = device.take_signal().unwrap();
        device.region().signals[0].store(5 << 32 | 2, Ordering::Relaxed);
        let locations =
            [0, 4].map(|offset| device.word_location(signal.address() as usize + offset).unwrap());
        assert_eq!(locations.map(|location| device.word(location, false)), [Some(2), Some(5)]);
        assert_eq!(device.word(locations[0], true), Some(5 << 32 | 2));
    }

    #[test]
    fn another_process_with_that_id_is_ignored() {
        let word = AtomicU64::new(7);
        let address = (&raw const word).expose_provenance();
        let proof = Proof::new();
        let own = std::process::id();
        let slot = |process, proof_address, proof| {
            let slot = MemberSlot::default();
            slot.life.store(process, Ordering::Relaxed);
            slot.proof_address.store(proof_address as u64, Ordering::Relaxed);
            slot.proof.store(proof, Ordering::Relaxed);
            slot
        };
        let (at, number) = ((&raw const proof).expose_provenance(), proof.0.load(Ordering::Relaxed));
        assert_eq!(read_of(&slot(own, at, number), address, 8), Some(7));
        assert_eq!(read_of(&slot(own, at, number ^ 1), address, 8), None);
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(read_of(&slot(other.id(), at, number), address, 8), None);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(read_of(&slot(other.id(), at, number), address, 8), None);
    }

    #[test]
    fn an_open_gate_in_a_stopped_processs_memory_leaves_no_gap() {
        let ([owner, other], word) = (two("open"), AtomicU64::new(1));
        let [Some(first), Some(gate), Some(second)] = starts_ns(&other, gated(&owner, &word)) else {
            panic!("the gate is open");
        };
        assert_eq!([gate, second], [first + 1_000_000; 2]);
    }

    #[test]
    fn a_closed_gate_in_a_stopped_processs_memory_opens_when_another_reads_it() {
        let ([owner, other], word) = (two("closed"), AtomicU64::new(0));
        let queue = gated(&owner, &word);
        assert!(matches!(starts_ns(&other, queue), [Some(_), None, None]));
        word.store(1, Ordering::Release);
        // Simulates that no time has passed, even on a busy machine.
        let check = &other.last_checks.0[queue].time_ns;
        check.store(clock::now_ns() + 60_000_000_000, Ordering::Relaxed);
        assert!(matches!(starts_ns(&other, queue), [Some(_), None, None]), "the gate was checked just now");
        check.store(0, Ordering::Relaxed);
        let written_ns = clock::now_ns();
        let [_, Some(gate), Some(second)] = starts_ns(&other, queue) else { panic!("the gate is open") };
        assert!(gate == second && (written_ns..=clock::now_ns()).contains(&gate), "{written_ns} {gate}");
    }

    #[test]
    fn a_gate_that_others_cannot_read_opens_when_its_owner_reads_it() {
        let ([owner, other], word) = (two("unseen"), AtomicU64::new(1));
        let queue = gated(&owner, &word);
        owner.region().members[owner.member()].proof.fetch_add(1, Ordering::Relaxed);
        assert!(matches!(starts_ns(&other, queue), [Some(_), None, None]));
        let looked_ns = clock::now_ns();
        let [_, Some(gate), Some(second)] = starts_ns(&owner, queue) else {
            panic!("the owner reads the gate")
        };
        assert!(gate == second && gate >= looked_ns);
    }
}
