//! The device's scheduler: which packet of which hardware queue runs when. It is a pure function of its
//! inputs: it reads no clock and no shared memory.
//!
//! A part of the device (compute units, copy engines) has a number of units. Each hardware queue runs its
//! packets in order, one at a time; packets of different queues overlap while units last. When units run out,
//! queues are served round-robin at packets' ends. A packet that does not fit yet blocks the packets after it
//! in that order, so that small kernels cannot starve a large one.
//!
//! Every decision happens at a time on the timeline that the packets themselves define, never at the time
//! when a process advanced the schedule. So any process may bring the schedule up to date, however late, and
//! gets the same result.
//!
//! Gates are the exception, since it is unknown when their words were written. A gate found open is taken to
//! have been open since it was due. If an earlier read found it closed, it opens at the time of the read
//! instead. A gate found closed is taken to have been closed when it was due. Gates occupy no units and are
//! not part of the round-robin.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Packets that a queue holds at most; also the number of grants whose start times are kept.
pub(super) const DEPTH: u64 = 16;
/// Hardware queues of a device, of all processes together: six for each of 64 processes, four for compute and
/// two for copies.
pub(super) const QUEUES: usize = 384;

/// The part of the device that a packet occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Compute units.
    Compute,
    /// Copy engines; a copy occupies one.
    Copy,
}

/// Units of each part.
pub(super) type Capacity = [u64; 2];

/// One packet of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Earliest start.
    pub(super) ready_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) units: u64,
    /// The packet does nothing but block the packets behind it.
    pub(super) is_gate: bool,
}

/// A gate's state at the last read of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateState {
    Open,
    Closed,
}

impl GateState {
    pub(super) fn of(is_open: bool) -> Self {
        if is_open { Self::Open } else { Self::Closed }
    }
}

/// The packets in the queues.
pub(super) trait Packets {
    /// The packet with this ticket in a queue, if it is posted.
    fn pending(&self, queue: usize, ticket: u64) -> Option<Packet>;

    /// State of a pending gate. Reading it may take a system call, so a gate that blocks its queue is read
    /// once each time the timeline is advanced.
    fn gate(&self, queue: usize, ticket: u64) -> GateState;
}

/// The state of one hardware queue on the timeline. It consists of words only, so that it can be copied word
/// by word.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(super) struct QueueState {
    /// The owning member's number plus one; 0: no owner.
    owner: u64,
    /// `Part`, as a number.
    part: u64,
    /// Packets started so far, which is also the ticket of the next one.
    granted: u64,
    /// When the packet that started last ends, and the units that it occupies until then.
    end_ns: u64,
    units: u64,
    /// 1 if its next packet is a gate that was found closed.
    closed: u64,
    /// When the last such gate was found open; nothing starts earlier.
    opened_ns: u64,
    /// Start of the packet with ticket `t`, at `t % DEPTH`, for the last `DEPTH` packets.
    starts_ns: [u64; DEPTH as usize],
}

/// The timeline of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(super) struct Schedule {
    /// Everything before this time is decided.
    clock_ns: u64,
    /// For each part, the queue that was served last.
    last_queues: [u64; 2],
    /// Queues from this index on were never used.
    used: u64,
    queues: [QueueState; QUEUES],
}

const WORD: usize = size_of::<u64>();
const _: () = assert!(size_of::<QueueState>() == (7 + DEPTH as usize) * WORD);
const _: () = assert!(size_of::<Schedule>() == 4 * WORD + QUEUES * size_of::<QueueState>());
/// Size of a schedule in words.
pub(super) const WORDS: usize = size_of::<Schedule>() / WORD;
/// Words before those of the queues.
pub(super) const HEAD_WORDS: usize = 4;

/// What advancing the schedule has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Queues and the tickets that were granted, as bits of `ticket % DEPTH`.
    pub(super) granted: Vec<(usize, u32)>,
    /// The next time at which a packet will start or end.
    pub(super) next_ns: Option<u64>,
    moved: bool,
}

impl Progress {
    /// Whether the schedule has changed.
    pub(super) fn has_changed(&self) -> bool {
        self.moved || !self.granted.is_empty()
    }
}

impl Schedule {
    /// On the heap, because it is too large for the stacks of application threads that call in.
    pub(super) fn empty() -> Box<Self> {
        // SAFETY: zero is a value of every field, as the derived `FromBytes` has checked.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// Words that hold the queues in use; the rest are zero.
    pub(super) fn used_words(&self) -> usize {
        HEAD_WORDS + (self.used as usize).min(QUEUES) * (size_of::<QueueState>() / WORD)
    }

    fn used_queues(&self) -> core::ops::Range<usize> {
        0..(self.used as usize).min(QUEUES)
    }

    /// Takes a queue for a member; `posted` gives the number of packets that its ring has ever held. None if
    /// all are taken.
    pub(super) fn take_queue(
        &mut self,
        owner: usize,
        part: Part,
        posted: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let index = self.queues.iter().position(|queue| queue.owner == 0)?;
        // Packets that a dead owner left in the ring do not belong to the new owner.
        self.queues[index] = QueueState {
            owner: owner as u64 + 1,
            part: part as u64,
            granted: posted(index),
            end_ns: 0,
            units: 0,
            closed: 0,
            opened_ns: 0,
            starts_ns: [0; DEPTH as usize],
        };
        self.used = self.used.max(index as u64 + 1);
        Some(index)
    }

    /// Removes a member's queues and the packets that run on them, as of `now_ns`; returns false if it has
    /// none. The timeline must already be advanced to now.
    pub(super) fn remove_member(&mut self, member: usize, now_ns: u64) -> bool {
        let owner = member as u64 + 1;
        let mut has_any = false;
        for queue in self.queues.iter_mut().filter(|queue| queue.owner == owner) {
            *queue = zerocopy::FromZeros::new_zeroed();
            has_any = true;
        }
        if has_any {
            // Packets that waited for its units start now, not when the units were occupied.
            self.clock_ns = self.clock_ns.max(now_ns);
        }
        has_any
    }

    /// When a packet started, if it has. It must be one of the last `DEPTH` packets of the queue.
    pub(super) fn start_ns(&self, queue: usize, ticket: u64) -> Option<u64> {
        let queue = &self.queues[queue];
        (ticket < queue.granted).then(|| queue.starts_ns[(ticket % DEPTH) as usize])
    }

    /// Advances the timeline to `now_ns`.
    pub(super) fn advance(&mut self, now_ns: u64, capacity: Capacity, packets: &impl Packets) -> Progress {
        let mut progress = Progress::default();
        self.open_gates(now_ns, packets, &mut progress);
        loop {
            // A gate may follow a packet that takes no time.
            while self.start_fitting(capacity, packets, &mut progress) {}
            progress.next_ns = self.next_event_ns(packets);
            match progress.next_ns {
                Some(next_ns) if next_ns <= now_ns => self.clock_ns = next_ns,
                _ => return progress,
            }
            progress.moved = true;
        }
    }

    /// Opens, as of now, each gate that was found closed and is open now.
    fn open_gates(&mut self, now_ns: u64, packets: &impl Packets, progress: &mut Progress) {
        for index in self.used_queues() {
            let queue = &mut self.queues[index];
            if queue.closed != 0 && packets.gate(index, queue.granted) == GateState::Open {
                (queue.closed, queue.opened_ns) = (0, now_ns);
                progress.moved = true;
            }
        }
    }

    /// Starts packets at this time; returns whether any started.
    fn start_fitting(&mut self, capacity: Capacity, packets: &impl Packets, progress: &mut Progress) -> bool {
        let mut has_any = self.pass_gates(packets, progress);
        for part in [Part::Compute, Part::Copy] {
            while let Some((queue, packet)) = self.next_round_robin(part, packets) {
                let units = packet.units.clamp(1, capacity[part as usize]);
                if self.busy_units(part) + units > capacity[part as usize] {
                    break;
                }
                progress.note_grant(queue, self.grant(queue, units, packet.duration_ns));
                self.last_queues[part as usize] = queue as u64;
                has_any |= packet.duration_ns == 0;
            }
        }
        has_any
    }

    /// Passes open gates and marks closed ones. A marked gate has just been read.
    fn pass_gates(&mut self, packets: &impl Packets, progress: &mut Progress) -> bool {
        let mut has_any = false;
        for index in self.used_queues() {
            while self.queues[index].closed == 0
                && let Some(packet) = self.startable(index, packets)
                && packet.is_gate
            {
                match packets.gate(index, self.queues[index].granted) {
                    GateState::Open => {
                        progress.note_grant(index, self.grant(index, 0, 0));
                        has_any = true;
                    }
                    GateState::Closed => (self.queues[index].closed, progress.moved) = (1, true),
                }
            }
        }
        has_any
    }

    /// A queue's next packet, if nothing in the queue prevents its start at this time.
    fn startable(&self, index: usize, packets: &impl Packets) -> Option<Packet> {
        let queue = &self.queues[index];
        let may_start = queue.owner != 0 && queue.end_ns <= self.clock_ns && queue.opened_ns <= self.clock_ns;
        let packet = may_start.then(|| packets.pending(index, queue.granted))??;
        (packet.ready_ns <= self.clock_ns).then_some(packet)
    }

    /// Whether everything up to a time is decided, and every packet due by then has started.
    pub(super) fn is_played_to(&self, time_ns: u64) -> bool {
        self.clock_ns >= time_ns
    }

    /// Whether a queue's next packet is a gate that was found closed.
    pub(super) fn is_at_closed_gate(&self, queue: usize, ticket: u64) -> bool {
        self.queues[queue].closed != 0 && self.queues[queue].granted == ticket
    }

    /// Number of queues whose next packet is such a gate.
    pub(super) fn closed_gates(&self) -> usize {
        self.queues[self.used_queues()].iter().filter(|queue| queue.closed != 0).count()
    }

    /// The first queue, after the one served last, that has a packet to start at this time.
    fn next_round_robin(&self, part: Part, packets: &impl Packets) -> Option<(usize, Packet)> {
        let count = self.used_queues().len();
        let first = self.last_queues[part as usize] as usize + 1;
        (0..count).map(|offset| (first + offset) % count).find_map(|index| {
            let packet =
                (self.queues[index].part == part as u64).then(|| self.startable(index, packets))??;
            (!packet.is_gate).then_some((index, packet))
        })
    }

    fn busy_units(&self, part: Part) -> u64 {
        let queues = &self.queues[self.used_queues()];
        let busy =
            queues.iter().filter(|q| q.owner != 0 && q.part == part as u64 && q.end_ns > self.clock_ns);
        busy.map(|queue| queue.units).sum()
    }

    /// Starts a queue's next packet now; returns its ticket.
    fn grant(&mut self, queue: usize, units: u64, duration_ns: u64) -> u64 {
        let queue = &mut self.queues[queue];
        let ticket = queue.granted;
        queue.starts_ns[(ticket % DEPTH) as usize] = self.clock_ns;
        queue.end_ns = self.clock_ns.saturating_add(duration_ns);
        queue.units = units;
        queue.granted += 1;
        ticket
    }

    /// The first time after this one at which a packet ends or becomes ready.
    fn next_event_ns(&self, packets: &impl Packets) -> Option<u64> {
        let events = self.used_queues().filter(|&index| self.queues[index].owner != 0).flat_map(|index| {
            let queue = &self.queues[index];
            let ready_ns = packets.pending(index, queue.granted).map(|packet| packet.ready_ns);
            [Some(queue.end_ns), Some(queue.opened_ns), ready_ns]
        });
        events.flatten().filter(|&time_ns| time_ns > self.clock_ns).min()
    }
}

impl Progress {
    /// Combines this progress with later progress.
    pub(super) fn and(mut self, later: Self) -> Self {
        self.granted.extend(later.granted);
        Self { granted: self.granted, next_ns: later.next_ns, moved: self.moved || later.moved }
    }

    fn note_grant(&mut self, queue: usize, ticket: u64) {
        let bit = 1 << (ticket % DEPTH);
        match self.granted.iter_mut().find(|(known, _)| *known == queue) {
            Some((_, bits)) => *bits |= bit,
            None => self.granted.push((queue, bit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    const CAPACITY: Capacity = [100, 2];

    /// A schedule and the packets of its queues: ready, duration, units.
    struct Device {
        schedule: Box<Schedule>,
        packets: Queues,
    }

    #[derive(Default)]
    struct Queues {
        packets: Vec<Vec<Packet>>,
        /// Closed gates, by queue and ticket.
        closed: Vec<(usize, u64)>,
        looks: Cell<usize>,
    }

    impl Packets for Queues {
        fn pending(&self, queue: usize, ticket: u64) -> Option<Packet> {
            self.packets[queue].get(ticket as usize).copied()
        }

        fn gate(&self, queue: usize, ticket: u64) -> GateState {
            assert!(self.pending(queue, ticket).unwrap().is_gate);
            self.looks.update(|looks| looks + 1);
            GateState::of(!self.closed.contains(&(queue, ticket)))
        }
    }

    impl Device {
        fn new(parts: &[Part]) -> Self {
            let mut schedule = Schedule::empty();
            for (member, part) in parts.iter().enumerate() {
                assert_eq!(schedule.take_queue(member, *part, |_| 0), Some(member));
            }
            let packets = Queues { packets: vec![Vec::new(); parts.len()], ..Queues::default() };
            Self { schedule, packets }
        }

        fn post(&mut self, queue: usize, ready_ns: u64, duration_ns: u64, units: u64) {
            self.packets.packets[queue].push(Packet { ready_ns, duration_ns, units, is_gate: false });
        }

        fn post_gate(&mut self, queue: usize, ready_ns: u64) {
            self.packets.packets[queue].push(Packet { ready_ns, duration_ns: 0, units: 0, is_gate: true });
        }

        fn advance(&mut self, now_ns: u64) -> Progress {
            self.schedule.advance(now_ns, CAPACITY, &self.packets)
        }

        fn starts_ns(&self, queue: usize) -> Vec<Option<u64>> {
            (0..self.packets.packets[queue].len()).map(|t| self.schedule.start_ns(queue, t as u64)).collect()
        }
    }

    #[test]
    fn a_queue_runs_its_packets_back_to_back() {
        let mut device = Device::new(&[Part::Compute]);
        device.post(0, 10, 5, 1);
        device.post(0, 10, 5, 1);
        let progress = device.advance(12);
        assert_eq!((progress.granted.as_slice(), progress.next_ns), (&[(0, 0b1)][..], Some(15)));
        assert_eq!(device.advance(1000).next_ns, None);
        assert_eq!(device.starts_ns(0), [Some(10), Some(15)]);
    }

    #[test]
    fn queues_overlap_while_units_last_and_alternate_otherwise() {
        let mut device = Device::new(&[Part::Compute; 3]);
        for queue in 0..3 {
            device.post(queue, 1, 10, 60);
            device.post(queue, 1, 10, 40);
        }
        device.advance(1000);
        // The order is 1, 2, 0: a packet that fits starts, one that does not blocks the rest.
        assert_eq!(device.starts_ns(1), [Some(1), Some(21)]);
        assert_eq!(device.starts_ns(2), [Some(11), Some(31)]);
        assert_eq!(device.starts_ns(0), [Some(21), Some(31)]);
    }

    #[test]
    fn small_kernels_do_not_starve_a_large_one() {
        let mut device = Device::new(&[Part::Compute; 3]);
        for _ in 0..10 {
            device.post(0, 1, 10, 50);
            device.post(1, 6, 10, 50);
        }
        device.post(2, 7, 10, 100);
        device.advance(1000);
        assert_eq!(device.starts_ns(2), [Some(16)], "it starts as soon as both have ended once");
    }

    #[test]
    fn a_packet_larger_than_the_device_takes_all_of_it() {
        let mut device = Device::new(&[Part::Compute; 2]);
        device.post(0, 1, 10, 100_000);
        device.post(1, 1, 10, 1);
        device.advance(1000);
        assert_eq!((device.starts_ns(1), device.starts_ns(0)), (vec![Some(1)], vec![Some(11)]));
    }

    #[test]
    fn copies_run_beside_kernels_on_a_limited_number_of_engines() {
        let mut device = Device::new(&[Part::Compute, Part::Copy, Part::Copy, Part::Copy]);
        for queue in 0..4 {
            device.post(queue, 1, 10, 1);
        }
        device.advance(1000);
        let starts: Vec<_> = (0..4).map(|queue| device.starts_ns(queue)[0].unwrap()).collect();
        assert_eq!(starts, [1, 1, 1, 11]);
    }

    /// A queue with a kernel, a gate and another kernel.
    fn gated() -> Device {
        let mut device = Device::new(&[Part::Compute]);
        device.post(0, 10, 5, 100);
        device.post_gate(0, 10);
        device.post(0, 10, 5, 100);
        device
    }

    #[test]
    fn an_open_gate_leaves_no_gap_however_late_it_is_read() {
        let mut device = gated();
        device.advance(12);
        device.advance(1000);
        assert_eq!(device.starts_ns(0), [Some(10), Some(15), Some(15)]);
    }

    #[test]
    fn a_gate_that_was_found_closed_opens_when_it_is_read_again() {
        let mut device = gated();
        device.packets.closed.push((0, 1));
        assert!(device.advance(20).has_changed() && device.schedule.is_at_closed_gate(0, 1));
        assert!(!device.advance(30).has_changed());
        device.packets.closed.clear();
        device.advance(40);
        assert_eq!(device.starts_ns(0), [Some(10), Some(40), Some(40)]);
        assert!(!device.schedule.is_at_closed_gate(0, 1));
    }

    #[test]
    fn a_gate_is_read_once_when_it_is_due() {
        let mut device = gated();
        device.post_gate(0, 10);
        device.packets.closed.push((0, 3));
        let mut looks = |now_ns| {
            device.advance(now_ns);
            device.packets.looks.take()
        };
        assert_eq!([12, 16, 18, 30, 40].map(&mut looks), [0, 1, 0, 1, 1]);
    }

    #[test]
    fn a_closed_gate_blocks_its_own_queue_only() {
        let mut device = Device::new(&[Part::Compute; 2]);
        device.packets.closed.push((0, 0));
        device.post_gate(0, 1);
        device.post(0, 1, 10, 100);
        device.post(1, 1, 10, 100);
        device.advance(50);
        assert_eq!((device.starts_ns(0), device.starts_ns(1)), (vec![None, None], vec![Some(1)]));
    }

    #[test]
    fn advancing_late_or_often_gives_the_same_timeline() {
        let seed = 0x5eed_u64;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut next = |bound: u64| random.u64(..bound);
        let parts = [Part::Compute, Part::Compute, Part::Copy, Part::Compute, Part::Copy, Part::Copy];
        let (mut often, mut once) = (Device::new(&parts), Device::new(&parts));
        for _ in 0..60 {
            let (queue, ready_ns, duration_ns, units) =
                (next(6) as usize, 1 + next(50), next(40), 1 + next(120));
            if often.packets.packets[queue].len() < DEPTH as usize {
                often.post(queue, ready_ns, duration_ns, units);
                once.post(queue, ready_ns, duration_ns, units);
            }
        }
        for now_ns in 0..3000 {
            often.advance(now_ns);
        }
        once.advance(3000);
        assert_eq!(often.schedule, once.schedule, "seed {seed:#x}");
        assert!((0..6).all(|queue| often.starts_ns(queue).iter().all(Option::is_some)));
    }

    #[test]
    fn a_dead_members_units_are_freed_and_its_packets_are_removed() {
        let mut device = Device::new(&[Part::Compute; 2]);
        device.post(1, 1, 1_000_000, 100);
        device.post(1, 1, 1_000_000, 100);
        device.post(0, 2, 10, 100);
        device.advance(50);
        assert_eq!(device.starts_ns(0), [None]);
        assert!(device.schedule.remove_member(1, 50));
        assert!(!device.schedule.remove_member(1, 55));
        device.advance(60);
        assert_eq!(device.starts_ns(0), [Some(50)]);
        // The next member to take its queue does not inherit the second packet.
        assert_eq!(device.schedule.take_queue(7, Part::Compute, |_| 2), Some(1));
        assert_eq!(device.advance(2_000_000).granted, []);
    }

    #[test]
    fn a_device_has_a_limited_number_of_queues() {
        let mut schedule = Schedule::empty();
        for _ in 0..QUEUES {
            assert!(schedule.take_queue(0, Part::Compute, |_| 0).is_some());
        }
        assert_eq!(schedule.take_queue(0, Part::Compute, |_| 0), None);
    }
}
