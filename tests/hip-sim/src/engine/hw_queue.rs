//! This process's end of a hardware queue, shared by the streams that are mapped onto it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::schedule::{DEPTH, Packet};
use super::turns::Turns;
use super::{Device, Gate, Span, clock, eager};

/// See the module.
pub(crate) struct HwQueue {
    device: Arc<Device>,
    index: usize,
    ring: Mutex<Ring>,
    has_room: Condvar,
    pub(super) turns: Turns,
    /// That are mapped onto it.
    streams: AtomicUsize,
}

/// Which places of the ring may be written again: those of packets whose start is known.
struct Ring {
    posted: u64,
    /// All packets before this one are known to have started.
    known: u64,
    /// Of the packets from `known` on, those known too, as bits.
    known_ahead: u32,
    /// Threads that wait for room.
    sleepers: usize,
}

/// A packet in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    number: u64,
    duration_ns: u64,
}

impl HwQueue {
    /// `posted` packets were in it before.
    pub(super) fn new(device: Arc<Device>, index: usize, posted: u64) -> Self {
        let ring = Ring { posted, known: posted, known_ahead: 0, sleepers: 0 };
        let (has_room, turns, streams) = (Condvar::new(), Turns::default(), AtomicUsize::new(0));
        Self { device, index, ring: Mutex::new(ring), has_room, turns, streams }
    }

    /// Counts one more stream.
    pub(super) fn enter(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// And one less.
    pub(super) fn leave(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        eager::lock(&self.ring)
    }

    /// Appends a packet if there is room.
    pub(super) fn try_post(&self, packet: Packet, gate: Option<Gate>) -> Option<Ticket> {
        let mut ring = self.lock();
        if !ring.has_room() {
            return None;
        }
        let number = self.device.post(self.index, packet, gate);
        ring.posted = number + 1;
        Some(Ticket { number, duration_ns: packet.duration_ns })
    }

    /// How many packets were ever in it.
    pub(super) fn posted(&self) -> u64 {
        self.lock().posted
    }

    /// Returns when there was room since so many packets had been posted; somebody else may have taken it. On behalf of the
    /// caller, even: it has to look at its own packets then, instead of waiting for the room that only these will make.
    pub(super) fn wait_for_room(&self, posted: u64) {
        let mut ring = self.lock();
        while ring.is_still_full(posted) {
            ring.sleepers += 1;
            ring = self.has_room.wait(ring).expect("no holder panics");
            ring.sleepers -= 1;
        }
    }

    /// Among all that the device has.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Sleeps until a packet has started; its span.
    pub(super) fn wait_start(&self, ticket: Ticket) -> Span {
        let start_ns = self.device.wait_start(self.index, ticket.number);
        let mut ring = self.lock();
        ring.note_known(ticket.number);
        let sleepers = ring.sleepers;
        drop(ring);
        if sleepers > 0 {
            self.has_room.notify_all();
        }
        Span { start_ns, end_ns: start_ns + ticket.duration_ns }
    }

    /// Sleeps until it has ended.
    pub(super) fn wait_end(&self, span: Span) {
        if span.end_ns == span.start_ns {
            // A gate: whoever has seen it start has started what came behind it.
            return;
        }
        clock::sleep_until(span.end_ns);
        // Whoever comes next starts now and is told by nobody else.
        self.device.play_to(span.end_ns);
    }
}

impl Ring {
    fn has_room(&self) -> bool {
        self.posted - self.known < DEPTH
    }

    /// Whether there has been no room since so many packets had been posted.
    fn is_still_full(&self, posted: u64) -> bool {
        self.posted == posted && !self.has_room()
    }

    fn note_known(&mut self, ticket: u64) {
        self.known_ahead |= 1 << (ticket - self.known);
        let in_order = self.known_ahead.trailing_ones();
        self.known_ahead >>= in_order;
        self.known += u64::from(in_order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_in_the_order_of_the_packets() {
        let mut ring = Ring { posted: DEPTH, known: 0, known_ahead: 0, sleepers: 0 };
        assert!(!ring.has_room());
        ring.note_known(1);
        assert!(!ring.has_room());
        ring.note_known(0);
        assert_eq!((ring.known, ring.has_room()), (2, true));
    }

    #[test]
    fn room_that_was_taken_at_once_has_been_there() {
        let mut ring = Ring { posted: DEPTH, known: 0, known_ahead: 0, sleepers: 0 };
        assert!(ring.is_still_full(DEPTH));
        ring.note_known(0);
        assert!(!ring.is_still_full(DEPTH));
        ring.posted += 1;
        assert!(!ring.has_room() && !ring.is_still_full(DEPTH) && ring.is_still_full(DEPTH + 1));
    }
}
