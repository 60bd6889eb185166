//! Words that gates wait for: a device's signals, which all of its processes have mapped, or memory of one of them.
//!
//! What a process registers need not be mapped by others, nor be such that they could map it: a BPF map, say. So they read
//! the word where it is, with `process_vm_readv(2)`. The process is known by its guard's thread id, which is good for as
//! long as the process lives, whether or not its first thread does. But ids differ between pid namespaces, so each
//! process has a random number in its memory and tells the others, in the region, where it is. One call reads both:
//!
//! ```text
//! region: member m { guard's thread, proof's address, proof } --- process_vm_readv(thread) ---> { proof, word }
//!                                                                  not the proof: another process, not believed
//! ```
//!
//! Who cannot read a word, being another user, or in another pid namespace, or under a policy (Yama, seccomp), takes the
//! gate to be shut. It opens when somebody looks who can: its own process, which waits at it (`patience`). That of a dead
//! process stays shut until the process's queues are removed, which happens at once: nothing of it starts any more.
//!
//! The call takes some microseconds, and every launch plays the timeline. So who has found a gate in others' memory shut
//! takes it to be shut for a little while, in which its own process looks.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use super::Device;
use super::region::MemberSlot;
use crate::engine::clock;
use crate::engine::gate::Place;
use crate::engine::schedule::{GateState, Packet, Packets, QUEUES};

/// How long others' memory is not looked at again. Two or three microseconds in so many are what a process that launches all
/// the time can spare, and its own process looks no more often when it has waited for long.
const APART_NS: u64 = 25_000;

/// When this process last found a queue's gate shut in another's memory.
#[derive(Default)]
struct Look {
    /// One more than the gate's.
    ticket: AtomicU64,
    time_ns: AtomicU64,
}

/// Of each queue. One thread of the process plays at a time.
pub(super) struct Looks(Vec<Look>);

impl Looks {
    pub(super) fn new() -> Self {
        Self((0..QUEUES).map(|_| Look::default()).collect())
    }

    /// Whether a gate was found shut a moment ago.
    fn is_recent(&self, queue: usize, ticket: u64) -> bool {
        let look = &self.0[queue];
        look.ticket.load(Ordering::Relaxed) == ticket + 1
            && clock::now_ns() < look.time_ns.load(Ordering::Relaxed) + APART_NS
    }

    /// It was just now.
    fn note(&self, queue: usize, ticket: u64) {
        self.0[queue].ticket.store(ticket + 1, Ordering::Relaxed);
        self.0[queue].time_ns.store(clock::now_ns(), Ordering::Relaxed);
    }
}

/// A number that no other process has at its address.
pub(super) struct Proof(AtomicU64);

impl Proof {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().build_hasher().finish()))
    }
}

/// What is there at one moment, for playing the timeline once.
pub(super) struct Present<'a> {
    device: &'a Device,
    /// The far word that was read last: many gates often wait for the same.
    last: Cell<Option<(Place, bool, Option<u64>)>>,
}

impl<'a> Present<'a> {
    pub(super) fn new(device: &'a Device) -> Self {
        Self { device, last: Cell::new(None) }
    }

    /// Like [`Device::word`].
    fn far_word(&self, place: Place, is_64_bit: bool) -> Option<u64> {
        if let Some((known, width, word)) = self.last.get()
            && (known, width) == (place, is_64_bit)
        {
            return word;
        }
        let word = self.device.word(place, is_64_bit);
        self.last.set(Some((place, is_64_bit, word)));
        word
    }
}

impl Packets for Present<'_> {
    fn pending(&self, queue: usize, ticket: u64) -> Option<Packet> {
        self.device.region().pending(queue, ticket)
    }

    fn gate(&self, queue: usize, ticket: u64) -> GateState {
        // None if another packet has come meanwhile: whatever is made of this then is not committed.
        let Some(gate) = self.device.region().gate(queue, ticket) else { return GateState::Shut };
        let is_far = matches!(gate.place, Place::Memory { member, .. } if member != self.device.member());
        if !is_far {
            let word = self.device.word(gate.place, gate.is_64_bit);
            return GateState::of(word.is_some_and(|word| gate.is_open(word)));
        }
        if self.device.looks.is_recent(queue, ticket) {
            return GateState::Shut;
        }
        let is_open = self.far_word(gate.place, gate.is_64_bit).is_some_and(|word| gate.is_open(word));
        if !is_open {
            self.device.looks.note(queue, ticket);
        }
        GateState::of(is_open)
    }
}

impl Device {
    /// Lets others know this process's memory, which then stays where it is. Of a member, before it posts anything.
    pub(super) fn publish_proof(&self) {
        let slot = &self.region().members[self.member()];
        slot.proof_address.store((&raw const self.proof).expose_provenance() as u64, Ordering::Relaxed);
        slot.proof.store(self.proof.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Where a word of this process is; none if others cannot be told.
    pub(crate) fn place(&self, address: usize) -> Option<Place> {
        match self.find_signal(address) {
            Some((index, offset)) => Some(Place::Signal { index, is_upper: offset != 0 }),
            None => Place::in_memory(self.member(), address),
        }
    }

    /// None if this process cannot read it.
    fn word(&self, place: Place, is_64_bit: bool) -> Option<u64> {
        match place {
            Place::Signal { index, is_upper } => {
                let signal = self.region().signals.get(index as usize)?.load(Ordering::Acquire);
                Some(match (is_64_bit, is_upper) {
                    (true, _) => signal,
                    (false, false) => signal & u64::from(u32::MAX),
                    (false, true) => signal >> 32,
                })
            }
            // SAFETY: HIP knew the memory when the packet was made, and the application keeps it until the stream is done.
            Place::Memory { member, address } if member == self.member() => unsafe {
                Some(if is_64_bit {
                    AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(address)).load(Ordering::Acquire)
                } else {
                    let word = AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address));
                    u64::from(word.load(Ordering::Acquire))
                })
            },
            Place::Memory { member, address } => {
                read_of(self.region().members.get(member)?, address, if is_64_bit { 8 } else { 4 })
            }
        }
    }
}

/// An aligned word of at most eight bytes in a member's memory.
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

    /// Two members of one device: for each, the other is a process like any.
    fn two(test: &str) -> [Arc<Device>; 2] {
        let path = std::env::temp_dir().join(format!("hip-sim-test-{}-{test}", std::process::id()));
        let devices = [(); 2].map(|()| Device::shared(0, &path, Access::User).unwrap());
        std::fs::remove_file(path).unwrap();
        devices
    }

    /// A queue of a member's with a kernel of 1 ms, a gate for a word to be one, and another kernel, long past. Posted as by
    /// a process that is stopped then: it has not looked.
    fn gated(owner: &Arc<Device>, word: &AtomicU64) -> usize {
        let queue = owner.take_queue(Part::Compute).unwrap().index();
        let now_ns = clock::now_ns();
        let kernel = Packet { ready_ns: now_ns, duration_ns: 1_000_000, units: 1, is_gate: false };
        let place = owner.place((&raw const *word).expose_provenance()).unwrap();
        let gate = Gate { place, is_64_bit: true, condition: Condition::Equal, value: 1, mask: u64::MAX };
        let packet = Packet { ready_ns: now_ns, duration_ns: 0, units: 0, is_gate: true };
        for (packet, gate) in [(kernel, None), (packet, Some(gate)), (kernel, None)] {
            owner.region().post(queue, packet, gate);
        }
        clock::sleep_until(now_ns + 10_000_000);
        queue
    }

    /// When the three packets started, as far as they have, after somebody has played.
    fn starts_ns(player: &Device, queue: usize) -> [Option<u64>; 3] {
        player.play();
        [0, 1, 2].map(|ticket| player.last_seen().schedule.start_ns(queue, ticket))
    }

    #[test]
    fn words_of_others_are_read_where_they_are() {
        let [owner, other] = two("words");
        let words = [AtomicU64::new(7), AtomicU64::new(5 << 32 | 2)];
        let place = |offset| owner.place((&raw const words).expose_provenance() + offset).unwrap();
        for player in [&owner, &other] {
            assert_eq!(player.word(place(0), true), Some(7));
            assert_eq!([8, 12].map(|offset| player.word(place(offset), false)), [Some(2), Some(5)]);
        }
        let nowhere = Place::in_memory(owner.member(), 8).unwrap();
        assert_eq!(other.word(nowhere, true), None);
        let of_nobody = Place::in_memory(63, 8).unwrap();
        assert_eq!(other.word(of_nobody, true), None);
    }

    #[test]
    fn a_half_of_a_signal_is_a_word_of_its_own() {
        let device = Device::private(0);
        let signal = device.take_signal().unwrap();
        device.region().signals[0].store(5 << 32 | 2, Ordering::Relaxed);
        let places = [0, 4].map(|offset| device.place(signal.address() as usize + offset).unwrap());
        assert_eq!(places.map(|place| device.word(place, false)), [Some(2), Some(5)]);
        assert_eq!(device.word(places[0], true), Some(5 << 32 | 2));
    }

    #[test]
    fn another_process_of_that_id_is_not_believed() {
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
    fn a_shut_gate_in_a_stopped_processs_memory_opens_when_another_looks() {
        let ([owner, other], word) = (two("shut"), AtomicU64::new(0));
        let queue = gated(&owner, &word);
        assert!(matches!(starts_ns(&other, queue), [Some(_), None, None]));
        word.store(1, Ordering::Release);
        // As if no time had passed, however busy the machine.
        let look = &other.looks.0[queue].time_ns;
        look.store(clock::now_ns() + 60_000_000_000, Ordering::Relaxed);
        assert!(matches!(starts_ns(&other, queue), [Some(_), None, None]), "it has looked just now");
        look.store(0, Ordering::Relaxed);
        let written_ns = clock::now_ns();
        let [_, Some(gate), Some(second)] = starts_ns(&other, queue) else { panic!("it has been opened") };
        assert!(gate == second && (written_ns..=clock::now_ns()).contains(&gate), "{written_ns} {gate}");
    }

    #[test]
    fn a_gate_that_others_cannot_see_opens_when_its_own_process_looks() {
        let ([owner, other], word) = (two("unseen"), AtomicU64::new(1));
        let queue = gated(&owner, &word);
        owner.region().members[owner.member()].proof.fetch_add(1, Ordering::Relaxed);
        assert!(matches!(starts_ns(&other, queue), [Some(_), None, None]));
        let looked_ns = clock::now_ns();
        let [_, Some(gate), Some(second)] = starts_ns(&owner, queue) else { panic!("its own sees it") };
        assert!(gate == second && gate >= looked_ns);
    }
}
