//! What can be read of the queues without their lock.
//!
//! A process with one suspended stream still launches on all others, and most of these launches concern nothing that waits.
//! They read a word of the process ([`AdmissionMode`]) and a word of their queue ([`QueueStatus`]), which change rarely. Beside
//! other processes launches are also followed: they enter the queue's [journal](crate::journal).
//!
//! Both are written under the lock, after the change that they describe. So a thread that reads "clear" sees the effects of
//! every launch before. A thread that reads them a moment before a change would have been earlier under the lock as well: in
//! both ways, a command is admitted before it is launched.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::ids::QueueId;
use crate::journal::Journal;

/// A queue's status. Its memory is kept for as long as the process lives, since threads may read it after the queue was
/// destroyed. It may then become another queue's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct QueueStatus {
    queue: AtomicU64,
    /// The queue is not suspended and has no deferred command that was not launched.
    is_clear: AtomicBool,
    /// Its launches that the state does not know yet. On cache lines of its own: launches write there.
    journal: Journal,
}

impl QueueStatus {
    /// The queue that has it.
    #[inline]
    pub fn queue(&self) -> QueueId {
        QueueId(self.queue.load(Ordering::Acquire))
    }

    /// Whether nothing of the queue's own keeps its next command: it is not suspended, and everything before was launched.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.is_clear.load(Ordering::Acquire)
    }

    /// It is that of a new queue from now on, which is clear.
    pub(crate) fn assign(&self, QueueId(queue): QueueId) {
        self.journal.assign();
        self.queue.store(queue, Ordering::Release);
        self.set_clear(true);
    }

    #[inline]
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    #[inline]
    pub(crate) fn set_clear(&self, is_clear: bool) {
        // Without a change the cache line stays with the threads that read it.
        if self.is_clear.load(Ordering::Relaxed) != is_clear {
            self.is_clear.store(is_clear, Ordering::Release);
        }
    }
}

/// What decides whether a command may be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AdmissionMode {
    /// Nothing: all may.
    Open,
    /// The status of its queue and of those that it comes after: it may if they are clear.
    ByQueue,
    /// The process is suspended, and nothing else matters: none may.
    Suspended,
    /// The arbiter's page, where the journal of the queue is open ([`crate::XQueues::admit_at_once`]). Otherwise the same as under the
    /// lock.
    Beside,
    /// More than can be read without the lock, unless its queue is not clear: then it waits like what is before it.
    UnderLock,
}

/// The process's admission mode, as others read it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct SharedMode(AtomicU8);

impl SharedMode {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(AdmissionMode::Open as u8))
    }

    #[inline]
    pub(crate) fn get(&self) -> AdmissionMode {
        const OPEN: u8 = AdmissionMode::Open as u8;
        const BY_QUEUE: u8 = AdmissionMode::ByQueue as u8;
        const SUSPENDED: u8 = AdmissionMode::Suspended as u8;
        const BESIDE: u8 = AdmissionMode::Beside as u8;
        // Pairs with the release in `set`.
        match self.0.load(Ordering::Acquire) {
            OPEN => AdmissionMode::Open,
            BY_QUEUE => AdmissionMode::ByQueue,
            SUSPENDED => AdmissionMode::Suspended,
            BESIDE => AdmissionMode::Beside,
            _ => AdmissionMode::UnderLock,
        }
    }

    #[inline]
    pub(crate) fn set(&self, mode: AdmissionMode) {
        if self.0.load(Ordering::Relaxed) != mode as u8 {
            self.0.store(mode as u8, Ordering::Release);
        }
    }
}
