//! What shows of the queues without their lock.
//!
//! A process with one stream suspended still launches on all others, and most of these launches concern nothing that waits.
//! They look at a word of the process ([`Course`]) and at one of their queue ([`Face`]), which change rarely, and go.
//!
//! Both are written under the lock, behind what they tell of, so that who reads "clear" sees the effects of every launch
//! before. Who reads them a moment before a change would have been a moment earlier under the lock as well: a command is
//! admitted before it is launched, in either way.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::queues::Device;
use crate::queues::QueueId;
use crate::queues::state::State;

/// A queue's face. Its place is kept for as long as the process lives, since threads may look at it whose queue is long
/// gone; it may become another queue's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Face {
    queue: AtomicU64,
    /// Neither suspended nor with a command that was not launched.
    is_clear: AtomicBool,
}

impl Face {
    /// The queue that has it.
    pub fn queue(&self) -> QueueId {
        QueueId(self.queue.load(Ordering::Acquire))
    }

    /// Whether nothing of the queue's own keeps its next command: it is not suspended, and everything before was launched.
    pub fn is_clear(&self) -> bool {
        self.is_clear.load(Ordering::Acquire)
    }

    /// A new queue has it, which is clear.
    pub(super) fn belongs_to(&self, QueueId(queue): QueueId) {
        self.queue.store(queue, Ordering::Release);
        self.show(true);
    }

    pub(super) fn show(&self, is_clear: bool) {
        // The line stays with whoever reads it as long as nothing changes.
        if self.is_clear.load(Ordering::Relaxed) != is_clear {
            self.is_clear.store(is_clear, Ordering::Release);
        }
    }
}

/// What decides about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Course {
    /// Nothing: all go.
    Open,
    /// The faces of its queue and of those that it comes after: it goes if they are clear.
    ByFace,
    /// The process is suspended, and nothing else matters: none goes.
    Shut,
    /// More than shows here, unless its queue is not clear: then it waits like what is before it.
    Asks,
}

/// The process's course, as it shows.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shown(AtomicU8);

impl Shown {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(Course::Open as u8))
    }

    #[inline]
    pub(super) fn course(&self) -> Course {
        const OPEN: u8 = Course::Open as u8;
        const BY_FACE: u8 = Course::ByFace as u8;
        const SHUT: u8 = Course::Shut as u8;
        // Pairs with the release in `show`.
        match self.0.load(Ordering::Acquire) {
            OPEN => Course::Open,
            BY_FACE => Course::ByFace,
            SHUT => Course::Shut,
            _ => Course::Asks,
        }
    }

    pub(super) fn show(&self, course: Course) {
        if self.0.load(Ordering::Relaxed) != course as u8 {
            self.0.store(course as u8, Ordering::Release);
        }
    }
}

impl<D: Device> State<D> {
    pub(super) fn course(&self) -> Course {
        let asks = self.awaits_first_use
            || self.looks_at_all
            || self.holds_nothing
            || self.is_recorded()
            || self.is_contended();
        match self.is_engaged() {
            false => Course::Open,
            true if asks => Course::Asks,
            true if self.all_suspended => Course::Shut,
            true => Course::ByFace,
        }
    }
}
