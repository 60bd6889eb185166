//! The device's scheduler: which packet of which hardware queue runs when. Values in, values out; no clock, no memory
//! that anyone shares.
//!
//! A part of the device (compute units, copy engines) has so many units. Each hardware queue runs its packets in order,
//! one at a time; packets of different queues overlap while units last. When they do not last, queues take turns at
//! packets' ends, and a packet that does not fit yet holds the ones behind it back, so that small kernels cannot starve
//! a large one.
//!
//! Every decision falls at a moment of the timeline that the packets themselves define, never at the moment when somebody
//! looked. So any process may bring the schedule up to date, however late, and comes to the same result.
//!
//! Gates are the exception, since nobody knows when their words were written. A gate that is open when somebody looks was
//! open when its turn came, unless it was found shut before: then it opens at the moment of the look. A gate that is shut
//! when somebody looks was shut when its turn came. Gates take no units and no turn.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Packets that a queue holds at most, and grants whose start times are kept.
pub(super) const DEPTH: u64 = 16;
/// Hardware queues of a device, of all processes together: six for each of 64, four to compute and two to copy.
pub(super) const QUEUES: usize = 384;

/// What a packet occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Compute units.
    Compute,
    /// Copy engines, of which a copy takes one.
    Copy,
}

/// Of each part, its units.
pub(super) type Capacity = [u64; 2];

/// One packet as its queue holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// It starts no earlier.
    pub(super) ready_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) units: u64,
    /// It does nothing but hold up those behind it.
    pub(super) is_gate: bool,
}

/// A gate as it was found just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateState {
    Open,
    Shut,
}

impl GateState {
    pub(super) fn of(is_open: bool) -> Self {
        if is_open { Self::Open } else { Self::Shut }
    }
}

/// What the queues hold.
pub(super) trait Packets {
    /// The packet with a ticket of a queue, if it is there.
    fn pending(&self, queue: usize, ticket: u64) -> Option<Packet>;

    /// How a pending gate is now. To see that may take a system call, so a gate that holds its queue up is looked at once
    /// each time that the timeline is played.
    fn gate(&self, queue: usize, ticket: u64) -> GateState;
}

/// One hardware queue's place on the timeline. Words only, so that a copy of it can be taken word by word.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(super) struct QueueState {
    /// The owning member's number plus one; 0: nobody's.
    owner: u64,
    /// `Part`, as a number.
    part: u64,
    /// Packets started so far: also the ticket of the next one.
    granted: u64,
    /// When the packet that started last ends, and the units that it holds until then.
    end_ns: u64,
    units: u64,
    /// 1 if its next packet is a gate that was found shut.
    shut: u64,
    /// When the last such gate was found open; nothing starts earlier.
    opened_ns: u64,
    /// Start of the packet with ticket `t`, at `t % DEPTH`, for the last `DEPTH` of them.
    starts_ns: [u64; DEPTH as usize],
}

/// The timeline of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(super) struct Schedule {
    /// Everything before this moment is decided.
    clock_ns: u64,
    /// Of each part, the queue whose turn was last.
    turns: [u64; 2],
    /// Queues from here on were never used.
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

/// What bringing a schedule up to date has shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Queues with the tickets that were granted, as bits of `ticket % DEPTH`.
    pub(super) granted: Vec<(usize, u32)>,
    /// The next moment at which something will start or end.
    pub(super) next_ns: Option<u64>,
    moved: bool,
}

impl Progress {
    /// Whether the schedule differs from the one before.
    pub(super) fn has_changed(&self) -> bool {
        self.moved || !self.granted.is_empty()
    }
}

impl Schedule {
    /// Too large for the stack of whatever thread happens to ask.
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

    /// Takes a queue for a member; `posted` tells how many packets its ring has ever held. None if all are taken.
    pub(super) fn take_queue(
        &mut self,
        owner: usize,
        part: Part,
        posted: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let index = self.queues.iter().position(|queue| queue.owner == 0)?;
        // What a dead owner left in the ring is not this owner's.
        self.queues[index] = QueueState {
            owner: owner as u64 + 1,
            part: part as u64,
            granted: posted(index),
            end_ns: 0,
            units: 0,
            shut: 0,
            opened_ns: 0,
            starts_ns: [0; DEPTH as usize],
        };
        self.used = self.used.max(index as u64 + 1);
        Some(index)
    }

    /// Ends a member's queues together with what runs on them, now; false if it has none. The timeline has been played
    /// up to now.
    pub(super) fn remove_member(&mut self, member: usize, now_ns: u64) -> bool {
        let owner = member as u64 + 1;
        let mut has_any = false;
        for queue in self.queues.iter_mut().filter(|queue| queue.owner == owner) {
            *queue = zerocopy::FromZeros::new_zeroed();
            has_any = true;
        }
        if has_any {
            // What waited for its units starts now, not when they were taken.
            self.clock_ns = self.clock_ns.max(now_ns);
        }
        has_any
    }

    /// When a packet started, if it has. Asked about one of the last `DEPTH` packets of a queue.
    pub(super) fn start_ns(&self, queue: usize, ticket: u64) -> Option<u64> {
        let queue = &self.queues[queue];
        (ticket < queue.granted).then(|| queue.starts_ns[(ticket % DEPTH) as usize])
    }

    /// Plays the timeline up to `now_ns`.
    pub(super) fn advance(&mut self, now_ns: u64, capacity: Capacity, packets: &impl Packets) -> Progress {
        let mut progress = Progress::default();
        self.open_gates(now_ns, packets, &mut progress);
        loop {
            // A gate may stand behind a packet that takes no time.
            while self.start_what_fits(capacity, packets, &mut progress) {}
            progress.next_ns = self.next_event_ns(packets);
            match progress.next_ns {
                Some(next_ns) if next_ns <= now_ns => self.clock_ns = next_ns,
                _ => return progress,
            }
            progress.moved = true;
        }
    }

    /// What was found shut and is open now opens now.
    fn open_gates(&mut self, now_ns: u64, packets: &impl Packets, progress: &mut Progress) {
        for index in self.used_queues() {
            let queue = &mut self.queues[index];
            if queue.shut != 0 && packets.gate(index, queue.granted) == GateState::Open {
                (queue.shut, queue.opened_ns) = (0, now_ns);
                progress.moved = true;
            }
        }
    }

    /// Lets packets start at this moment; whether any did.
    fn start_what_fits(
        &mut self,
        capacity: Capacity,
        packets: &impl Packets,
        progress: &mut Progress,
    ) -> bool {
        let mut has_any = self.pass_gates(packets, progress);
        for part in [Part::Compute, Part::Copy] {
            while let Some((queue, packet)) = self.next_in_turn(part, packets) {
                let units = packet.units.clamp(1, capacity[part as usize]);
                if self.busy_units(part) + units > capacity[part as usize] {
                    break;
                }
                progress.note_grant(queue, self.grant(queue, units, packet.duration_ns));
                self.turns[part as usize] = queue as u64;
                has_any |= packet.duration_ns == 0;
            }
        }
        has_any
    }

    /// Passes gates that are open, and marks those that are not. A marked one has just been looked at.
    fn pass_gates(&mut self, packets: &impl Packets, progress: &mut Progress) -> bool {
        let mut has_any = false;
        for index in self.used_queues() {
            while self.queues[index].shut == 0
                && let Some(packet) = self.startable(index, packets)
                && packet.is_gate
            {
                match packets.gate(index, self.queues[index].granted) {
                    GateState::Open => {
                        progress.note_grant(index, self.grant(index, 0, 0));
                        has_any = true;
                    }
                    GateState::Shut => (self.queues[index].shut, progress.moved) = (1, true),
                }
            }
        }
        has_any
    }

    /// A queue's next packet, if nothing of the queue keeps it from starting at this moment.
    fn startable(&self, index: usize, packets: &impl Packets) -> Option<Packet> {
        let queue = &self.queues[index];
        let may_start = queue.owner != 0 && queue.end_ns <= self.clock_ns && queue.opened_ns <= self.clock_ns;
        let packet = may_start.then(|| packets.pending(index, queue.granted))??;
        (packet.ready_ns <= self.clock_ns).then_some(packet)
    }

    /// Whether everything up to a moment is decided, and what starts then has started.
    pub(super) fn is_played_to(&self, time_ns: u64) -> bool {
        self.clock_ns >= time_ns
    }

    /// Whether the next packet of a queue is a gate that was found shut.
    pub(super) fn is_held(&self, queue: usize, ticket: u64) -> bool {
        self.queues[queue].shut != 0 && self.queues[queue].granted == ticket
    }

    /// How many queues such a gate holds up.
    pub(super) fn held(&self) -> usize {
        self.queues[self.used_queues()].iter().filter(|queue| queue.shut != 0).count()
    }

    /// The first queue after the one whose turn was last that has a packet to start at this moment.
    fn next_in_turn(&self, part: Part, packets: &impl Packets) -> Option<(usize, Packet)> {
        let count = self.used_queues().len();
        let first = self.turns[part as usize] as usize + 1;
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

    /// Starts a queue's next packet now; its ticket.
    fn grant(&mut self, queue: usize, units: u64, duration_ns: u64) -> u64 {
        let queue = &mut self.queues[queue];
        let ticket = queue.granted;
        queue.starts_ns[(ticket % DEPTH) as usize] = self.clock_ns;
        queue.end_ns = self.clock_ns.saturating_add(duration_ns);
        queue.units = units;
        queue.granted += 1;
        ticket
    }

    /// The first moment after this one at which a packet ends or becomes ready.
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
    /// This and what came after.
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

    /// A schedule with the packets of its queues: ready, duration, units.
    struct Device {
        schedule: Box<Schedule>,
        packets: Queues,
    }

    #[derive(Default)]
    struct Queues {
        packets: Vec<Vec<Packet>>,
        /// Gates that are shut, by queue and ticket.
        shut: Vec<(usize, u64)>,
        looks: Cell<usize>,
    }

    impl Packets for Queues {
        fn pending(&self, queue: usize, ticket: u64) -> Option<Packet> {
            self.packets[queue].get(ticket as usize).copied()
        }

        fn gate(&self, queue: usize, ticket: u64) -> GateState {
            assert!(self.pending(queue, ticket).unwrap().is_gate);
            self.looks.update(|looks| looks + 1);
            GateState::of(!self.shut.contains(&(queue, ticket)))
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
    fn queues_overlap_while_units_last_and_take_turns_when_not() {
        let mut device = Device::new(&[Part::Compute; 3]);
        for queue in 0..3 {
            device.post(queue, 1, 10, 60);
            device.post(queue, 1, 10, 40);
        }
        device.advance(1000);
        // Turns go 1, 2, 0: whoever fits starts, whoever does not holds the rest back.
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
        assert_eq!(device.starts_ns(2), [Some(16)], "its turn comes as soon as both have ended once");
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
    fn copies_go_beside_kernels_on_so_many_engines() {
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
    fn an_open_gate_leaves_no_gap_however_late_somebody_looks() {
        let mut device = gated();
        device.advance(12);
        device.advance(1000);
        assert_eq!(device.starts_ns(0), [Some(10), Some(15), Some(15)]);
    }

    #[test]
    fn a_gate_that_was_found_shut_opens_when_somebody_looks() {
        let mut device = gated();
        device.packets.shut.push((0, 1));
        assert!(device.advance(20).has_changed() && device.schedule.is_held(0, 1));
        assert!(!device.advance(30).has_changed());
        device.packets.shut.clear();
        device.advance(40);
        assert_eq!(device.starts_ns(0), [Some(10), Some(40), Some(40)]);
        assert!(!device.schedule.is_held(0, 1));
    }

    #[test]
    fn a_gate_is_looked_at_once_when_its_turn_has_come() {
        let mut device = gated();
        device.post_gate(0, 10);
        device.packets.shut.push((0, 3));
        let mut looks = |now_ns| {
            device.advance(now_ns);
            device.packets.looks.take()
        };
        assert_eq!([12, 16, 18, 30, 40].map(&mut looks), [0, 1, 0, 1, 1]);
    }

    #[test]
    fn a_shut_gate_holds_up_its_own_queue_only() {
        let mut device = Device::new(&[Part::Compute; 2]);
        device.packets.shut.push((0, 0));
        device.post_gate(0, 1);
        device.post(0, 1, 10, 100);
        device.post(1, 1, 10, 100);
        device.advance(50);
        assert_eq!((device.starts_ns(0), device.starts_ns(1)), (vec![None, None], vec![Some(1)]));
    }

    #[test]
    fn looking_late_or_often_gives_the_same_timeline() {
        let seed = 0x5eed_u64;
        let mut random = seed;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
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
    fn a_dead_member_frees_what_it_held_and_its_packets_are_gone() {
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
        // Its queue goes to the next one, who does not inherit the second packet.
        assert_eq!(device.schedule.take_queue(7, Part::Compute, |_| 2), Some(1));
        assert_eq!(device.advance(2_000_000).granted, []);
    }

    #[test]
    fn a_device_has_only_so_many_queues() {
        let mut schedule = Schedule::empty();
        for _ in 0..QUEUES {
            assert!(schedule.take_queue(0, Part::Compute, |_| 0).is_some());
        }
        assert_eq!(schedule.take_queue(0, Part::Compute, |_| 0), None);
    }
}
