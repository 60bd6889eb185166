//! This process's end of a hardware queue, shared by the streams that are mapped onto it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::schedule::{DEPTH, Packet};
use super::submission_order::SubmissionOrder;
use super::{Device, Gate, Span, clock, spin_then_sleep};

/// A hardware queue of this process.
pub(crate) struct HwQueue {
    device: Arc<Device>,
    index: usize,
    ring: Mutex<Ring>,
    has_space: Condvar,
    pub(super) order: SubmissionOrder,
    /// Number of streams that are mapped onto it.
    streams: AtomicUsize,
}

/// The ring's slots that may be written again: those of packets whose start is known.
struct Ring {
    posted: u64,
    /// All packets before this one are known to have started.
    known: u64,
    /// Packets from `known` on that are known to have started too, as bits.
    known_ahead: u32,
    /// Threads that wait for space in the ring.
    sleepers: usize,
}

/// A packet in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    number: u64,
    duration_ns: u64,
}

impl HwQueue {
    /// `posted` is the number of packets that the queue has ever held.
    pub(super) fn new(device: Arc<Device>, index: usize, posted: u64) -> Self {
        let ring = Ring { posted, known: posted, known_ahead: 0, sleepers: 0 };
        let (has_space, order, streams) = (Condvar::new(), SubmissionOrder::default(), AtomicUsize::new(0));
        Self { device, index, ring: Mutex::new(ring), has_space, order, streams }
    }

    /// Counts one more stream.
    pub(super) fn enter(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one stream less.
    pub(super) fn leave(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        spin_then_sleep::lock(&self.ring)
    }

    /// Appends a packet if the ring has space.
    pub(super) fn try_post(&self, packet: Packet, gate: Option<Gate>) -> Option<Ticket> {
        let mut ring = self.lock();
        if !ring.has_space() {
            return None;
        }
        let number = self.device.post(self.index, packet, gate);
        ring.posted = number + 1;
        Some(Ticket { number, duration_ns: packet.duration_ns })
    }

    /// Number of packets that the queue has ever held.
    pub(super) fn posted(&self) -> u64 {
        self.lock().posted
    }

    /// Returns once the ring has had space after its `posted`-th packet; another thread may have taken that
    /// space already. That thread may even have posted the caller's own packets. So the caller must check
    /// them again, instead of waiting for space that only they will free.
    pub(super) fn wait_for_space(&self, posted: u64) {
        let mut ring = self.lock();
        while ring.is_still_full(posted) {
            ring.sleepers += 1;
            ring = self.has_space.wait(ring).expect("no holder panics");
            ring.sleepers -= 1;
        }
    }

    /// Index among all queues of the device.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Sleeps until a packet has started; returns its span.
    pub(super) fn wait_start(&self, ticket: Ticket) -> Span {
        let start_ns = self.device.wait_start(self.index, ticket.number);
        let mut ring = self.lock();
        ring.note_known(ticket.number);
        let sleepers = ring.sleepers;
        drop(ring);
        if sleepers > 0 {
            self.has_space.notify_all();
        }
        Span { start_ns, end_ns: start_ns + ticket.duration_ns }
    }

    /// Sleeps until the packet has ended.
    pub(super) fn wait_end(&self, span: Span) {
        if span.end_ns == span.start_ns {
            // A gate: the thread that saw it start has also started the packets behind it.
            return;
        }
        clock::sleep_until(span.end_ns);
        // The next packet starts now, and no other process would wake its waiter.
        self.device.play_to(span.end_ns);
    }
}

impl Ring {
    fn has_space(&self) -> bool {
        self.posted - self.known < DEPTH
    }

    /// Whether the ring has had no space since its `posted`-th packet.
    fn is_still_full(&self, posted: u64) -> bool {
        self.posted == posted && !self.has_space()
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
    fn space_is_freed_in_the_order_of_the_packets() {
        let mut ring = Ring { posted: DEPTH, known: 0, known_ahead: 0, sleepers: 0 };
        assert!(!ring.has_space());
        ring.note_known(1);
        assert!(!ring.has_space());
        ring.note_known(0);
        assert_eq!((ring.known, ring.has_space()), (2, true));
    }

    #[test]
    fn waiters_return_even_if_the_space_was_taken_at_once() {
        let mut ring = Ring { posted: DEPTH, known: 0, known_ahead: 0, sleepers: 0 };
        assert!(ring.is_still_full(DEPTH));
        ring.note_known(0);
        assert!(!ring.is_still_full(DEPTH));
        ring.posted += 1;
        assert!(!ring.has_space() && !ring.is_still_full(DEPTH) && ring.is_still_full(DEPTH + 1));
    }
}
