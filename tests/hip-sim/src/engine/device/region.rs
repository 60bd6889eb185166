//! The memory shared by the processes on one device: one region, changed without locks.
//!
//! ```text
//! header    magic, layout version, size; capacity, roster, root
//! members   64 x { robust-list node, life, proof }        the processes on the device
//! queues   384 x { posted, bell, waiting, 16 packets }    written by the queue's owner, bell and waiting by all
//! signals   64 x 64 words                                 gates wait for them; written by the allocation's users
//! buffers  129 x schedule                                 root says which is current
//! ```
//!
//! The schedule is never changed in place. A process that changes it copies the current one, works on the
//! copy and writes it to one of its own buffers. Then it makes that buffer the current one by one
//! compare-and-exchange on `root`:
//!
//! ```text
//! root = { version, buffer 6 } --- member 2 writes buffer 4, then root: { v, 6 } -> { v + 1, 4 } --- current: buffer 4
//!                                      | killed or stopped anywhere before: nothing has changed
//!                                      ` another member was quicker: the exchange fails, retry
//! ```
//!
//! So a process may be killed or stopped at any instruction: it can hold no lock, and other processes see no
//! partial change. Member `m` owns buffers `2m` and `2m + 1`, at most one of which is current. The last
//! buffer is the empty schedule that a new device begins with.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use zerocopy::{FromBytes, IntoBytes};

use crate::engine::gate::{self, Gate};
use crate::engine::schedule::{DEPTH, HEAD_WORDS, Packet, QUEUES, Schedule, WORDS};

/// Processes on one device at most; a process with two copies of the library counts twice.
pub(super) const MEMBERS: usize = 64;
/// Signals of each process.
pub(super) const SIGNALS: usize = 64;
const BUFFERS: usize = 2 * MEMBERS + 1;
/// "hip-sim" and a terminating zero.
const MAGIC: u64 = u64::from_le_bytes(*b"hip-sim\0");
/// Must be raised with every change of the declarations below.
const LAYOUT_VERSION: u32 = 3;

/// A device's shared memory, in the layout above. All zeroes but for the header is a valid, empty device.
#[repr(C)]
pub(super) struct Region {
    magic: AtomicU64,
    layout_version: AtomicU32,
    /// Changes when a member joins.
    pub(super) roster: AtomicU32,
    size: AtomicU64,
    capacity: [AtomicU64; 2],
    /// Index of the current buffer in the low `BUFFER_BITS` bits, version of the schedule above them.
    root: AtomicU64,
    pub(super) members: [MemberSlot; MEMBERS],
    pub(super) queues: [QueueSlot; QUEUES],
    /// Those of member `m` begin at `m * SIGNALS`.
    pub(super) signals: [AtomicU64; MEMBERS * SIGNALS],
    buffers: [Buffer; BUFFERS],
}

/// One process. The kernel follows `node` and `life` when the guard thread dies; see `members`. With the
/// other fields, other processes read its memory; see `words`.
#[repr(C)]
#[cfg_attr(test, derive(Default))]
pub(super) struct MemberSlot {
    pub(super) node: AtomicU64,
    /// 0: free; otherwise the guard thread's id, or `OWNER_DIED`.
    pub(super) life: AtomicU32,
    reserved: u32,
    pub(super) proof_address: AtomicU64,
    pub(super) proof: AtomicU64,
}

/// One hardware queue's packets.
#[repr(C)]
pub(super) struct QueueSlot {
    /// Number of packets ever written, which is the next one's ticket. Only the owner writes it and the
    /// packets.
    posted: AtomicU64,
    /// Rung after a grant that has a waiter.
    pub(super) bell: AtomicU32,
    /// Bits `ticket % DEPTH` of the packets whose grant has a waiter.
    pub(super) waiting: AtomicU32,
    packets: [PacketSlot; DEPTH as usize],
}

#[repr(C)]
struct PacketSlot {
    ready_ns: AtomicU64,
    duration_ns: AtomicU64,
    units: AtomicU64,
    /// The words of a `Gate`; zeroes for any other packet.
    gate: [AtomicU64; 3],
}

#[repr(C)]
struct Buffer {
    words: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<MemberSlot>() == 32);
const _: () = assert!(size_of::<QueueSlot>() == 16 + 48 * DEPTH as usize);
const _: () = assert!(
    size_of::<Region>()
        == 48
            + MEMBERS * size_of::<MemberSlot>()
            + QUEUES * size_of::<QueueSlot>()
            + MEMBERS * SIGNALS * size_of::<u64>()
            + BUFFERS * size_of::<Buffer>()
);
const _: () = assert!(2 * MEMBERS < 1 << BUFFER_BITS);
const _: () = assert!(MEMBERS <= gate::MEMBERS_MAX);

const BUFFER_BITS: u32 = 8;
const BUFFER_MASK: u64 = (1 << BUFFER_BITS) - 1;
/// The buffer that no member writes.
const EMPTY_BUFFER: u64 = 2 * MEMBERS as u64;

/// A copy of a schedule, and the root that it was copied from.
pub(super) struct Snapshot {
    pub(super) schedule: Box<Schedule>,
    root: u64,
}

impl Snapshot {
    pub(super) fn new() -> Self {
        Self { schedule: Schedule::empty(), root: EMPTY_BUFFER }
    }
}

impl Region {
    /// Turns zeroed memory, which no other process uses, into a device.
    pub(super) fn initialize(&self, capacity: [u64; 2]) {
        for (slot, units) in self.capacity.iter().zip(capacity) {
            slot.store(units, Ordering::Relaxed);
        }
        self.root.store(EMPTY_BUFFER, Ordering::Relaxed);
        self.size.store(size_of::<Self>() as u64, Ordering::Relaxed);
        self.layout_version.store(LAYOUT_VERSION, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether this library knows the layout.
    pub(super) fn is_valid(&self) -> bool {
        self.magic.load(Ordering::Acquire) == MAGIC
            && self.layout_version.load(Ordering::Relaxed) == LAYOUT_VERSION
            && self.size.load(Ordering::Relaxed) == size_of::<Self>() as u64
    }

    pub(super) fn capacity(&self) -> [u64; 2] {
        [0, 1].map(|part: usize| self.capacity[part].load(Ordering::Relaxed).max(1))
    }

    /// Copies the current schedule. The target is an earlier copy of this region's, or a new one.
    pub(super) fn read(&self, snapshot: &mut Snapshot) {
        loop {
            let root = self.root.load(Ordering::Acquire);
            let buffer = &self.buffers[(root & BUFFER_MASK).min(EMPTY_BUFFER) as usize];
            buffer.copy(0..HEAD_WORDS, words(&mut snapshot.schedule));
            // The number of queues in use only grows, so the words beyond it in an older copy are zero too.
            let used = snapshot.schedule.used_words();
            buffer.copy(HEAD_WORDS..used, words(&mut snapshot.schedule));
            // Pairs with the fence in `commit`: a reader that sees a word of the buffer's next use also sees
            // the next root.
            fence(Ordering::Acquire);
            if self.root.load(Ordering::Relaxed) == root {
                snapshot.root = root;
                return;
            }
        }
    }

    /// Makes a changed copy the current schedule. Returns false, without effect, if the schedule has changed
    /// since the copy.
    ///
    /// A member must not call this from two threads at a time.
    pub(super) fn commit(&self, snapshot: &Snapshot, member: usize) -> bool {
        let present = self.root.load(Ordering::Acquire);
        if present != snapshot.root {
            return false;
        }
        let own = 2 * member as u64;
        let target = if present & BUFFER_MASK == own { own + 1 } else { own };
        let words =
            <[u64]>::ref_from_bytes(snapshot.schedule.as_bytes()).expect("a schedule is made of words");
        fence(Ordering::Release);
        for (slot, word) in
            self.buffers[target as usize].words.iter().zip(&words[..snapshot.schedule.used_words()])
        {
            slot.store(*word, Ordering::Relaxed);
        }
        let next = ((snapshot.root >> BUFFER_BITS) + 1) << BUFFER_BITS | target;
        self.root.compare_exchange(snapshot.root, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The packet with a ticket, if it is posted.
    pub(super) fn pending(&self, queue: usize, ticket: u64) -> Option<Packet> {
        let slot = &self.queues[queue];
        if slot.posted.load(Ordering::Acquire) <= ticket {
            return None;
        }
        let packet = &slot.packets[(ticket % DEPTH) as usize];
        // A packet is overwritten only after its grant; a process that reads the newer one fails to commit.
        Some(Packet {
            ready_ns: packet.ready_ns.load(Ordering::Relaxed),
            duration_ns: packet.duration_ns.load(Ordering::Relaxed),
            units: packet.units.load(Ordering::Relaxed),
            is_gate: gate_of(packet).is_some(),
        })
    }

    /// The gate of the packet with a ticket, if it is posted and a gate.
    pub(super) fn gate(&self, queue: usize, ticket: u64) -> Option<Gate> {
        gate_of(&self.queues[queue].packets[(ticket % DEPTH) as usize])
    }

    /// Number of packets that a queue has ever held.
    pub(super) fn posted(&self, queue: usize) -> u64 {
        self.queues[queue].posted.load(Ordering::Acquire)
    }

    /// Appends a packet to a queue of the caller's and returns its ticket. The packet `DEPTH` before must be
    /// granted and its start known. Readers determine whether a gate is open.
    pub(super) fn post(&self, queue: usize, packet: Packet, gate: Option<Gate>) -> u64 {
        let slot = &self.queues[queue];
        let ticket = slot.posted.load(Ordering::Relaxed);
        let packet_slot = &slot.packets[(ticket % DEPTH) as usize];
        packet_slot.ready_ns.store(packet.ready_ns, Ordering::Relaxed);
        packet_slot.duration_ns.store(packet.duration_ns, Ordering::Relaxed);
        packet_slot.units.store(packet.units, Ordering::Relaxed);
        let words = gate.map_or([0; 3], |gate| gate.words());
        for (slot, word) in packet_slot.gate.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        // A reader that sees the new count also sees the packet.
        slot.posted.store(ticket + 1, Ordering::Release);
        ticket
    }
}

fn gate_of(packet: &PacketSlot) -> Option<Gate> {
    Gate::from_words(packet.gate.each_ref().map(|word| word.load(Ordering::Relaxed)))
}

fn words(schedule: &mut Schedule) -> &mut [u64] {
    <[u64]>::mut_from_bytes(schedule.as_mut_bytes()).expect("a schedule is made of words")
}

impl Buffer {
    fn copy(&self, range: core::ops::Range<usize>, to: &mut [u64]) {
        for (word, slot) in to[range.clone()].iter_mut().zip(&self.words[range]) {
            *word = slot.load(Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Mapping;
    use super::*;
    use crate::engine::schedule::Part;

    const QUEUE_SIZE: usize = (size_of::<Schedule>() - HEAD_WORDS * 8) / QUEUES;

    #[test]
    fn of_two_changes_to_the_same_schedule_one_fails_without_effect() {
        let mapping = Mapping::private([100, 2]);
        let region = mapping.region();
        let (mut first, mut second) = (Snapshot::new(), Snapshot::new());
        region.read(&mut first);
        region.read(&mut second);
        assert_eq!(first.schedule.take_queue(1, Part::Compute, |_| 0), Some(0));
        assert_eq!(second.schedule.take_queue(2, Part::Copy, |_| 0), Some(0));
        assert!(region.commit(&first, 1));
        assert!(!region.commit(&second, 2));
        region.read(&mut second);
        assert!(second.schedule == first.schedule);
        assert_eq!(second.schedule.take_queue(2, Part::Copy, |_| 0), Some(1));
        assert!(region.commit(&second, 2));
    }

    #[test]
    fn repeated_changes_never_write_the_current_buffer() {
        let mapping = Mapping::private([100, 2]);
        let region = mapping.region();
        let mut snapshot = Snapshot::new();
        for queue in 0..5 {
            region.read(&mut snapshot);
            let before = region.root.load(Ordering::Relaxed);
            assert_eq!(snapshot.schedule.take_queue(3, Part::Compute, |_| 0), Some(queue));
            assert!(region.commit(&snapshot, 3));
            assert_ne!(region.root.load(Ordering::Relaxed) & BUFFER_MASK, before & BUFFER_MASK);
        }
    }

    #[test]
    fn readers_never_see_a_partial_schedule() {
        let mapping = Mapping::private([100, 2]);
        let region = mapping.region();
        let mut first = Snapshot::new();
        region.read(&mut first);
        for queue in 0..8 {
            assert_eq!(first.schedule.take_queue(9, Part::Compute, |_| 0), Some(queue));
        }
        assert!(region.commit(&first, 0));
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for member in 1..3 {
                let is_done = &is_done;
                scope.spawn(move || {
                    let mut own = Snapshot::new();
                    for round in 1..20_000_u64 {
                        region.read(&mut own);
                        // All queues of a member are removed and taken at once: readers see eight or none.
                        let owner = (round % 2) as usize * 10 + member;
                        for present in [9, 1, 2, 11, 12] {
                            own.schedule.remove_member(present, round);
                        }
                        while own.schedule.take_queue(owner, Part::Compute, |_| round) != Some(7) {}
                        region.commit(&own, member);
                    }
                    is_done.store(true, Ordering::Relaxed);
                });
            }
            let mut seen = Snapshot::new();
            while !is_done.load(Ordering::Relaxed) {
                region.read(&mut seen);
                let queues = seen.schedule.as_bytes()[HEAD_WORDS * 8..].chunks(QUEUE_SIZE);
                let owners: Vec<_> = queues.take(8).map(|queue| queue[..8].to_vec()).collect();
                assert!(owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
            }
        });
    }
}
