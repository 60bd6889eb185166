//! What can be read of the queues without their lock.
//!
//! A process with one suspended stream still launches on all others, and most of those launches concern nothing that waits. They
//! read one word of the process ([`AdmissionMode`]) and one of their queue ([`QueueStatus`]), which change rarely. Beside other
//! processes, launches are also followed: they enter the queue's [journal](crate::journal).
//!
//! Both are written under the lock, after the change that they describe. So a thread that reads "clear" sees the effects of all
//! earlier launches. A thread that reads just before a change would also have come first under the lock. Either way, a command is
//! admitted before it is launched.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::ids::QueueId;
use crate::journal::Journal;

/// A queue's status. Its memory is never freed, since threads may read it after the queue was destroyed. It may then become
/// another queue's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct QueueStatus {
    queue: AtomicU64,
    /// The queue is neither suspended nor held, and each launch of a deferred command has returned.
    is_clear: AtomicBool,
    /// The launches that the state does not know yet. It has cache lines of its own, since launches write there.
    journal: Journal,
}

impl QueueStatus {
    /// The queue that uses this status.
    #[inline]
    pub fn queue(&self) -> QueueId {
        QueueId(self.queue.load(Ordering::Acquire))
    }

    /// Whether nothing of the queue keeps its next command: it is not suspended, and everything before was launched.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.is_clear.load(Ordering::Acquire)
    }

    /// Gives the status to a new queue, which is clear.
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

/// How launches are decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AdmissionMode {
    /// Every launch may be made.
    Open,
    /// By the status of the command's queue and of the queues that it comes after. It may be launched if all are clear.
    ByQueue,
    /// The process is suspended: nothing may be launched.
    Suspended,
    /// By the arbiter's page, if the journal of the queue is open ([`crate::XQueues::admit_at_once`]). Otherwise like
    /// [`Self::UnderLock`].
    Beside,
    /// By the state, under the lock. But if its queue is not clear, the command waits like those before it.
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

    /// The word itself, for code that reads it in assembly.
    pub(crate) fn word(&self) -> &AtomicU8 {
        &self.0
    }

    #[inline]
    pub(crate) fn set(&self, mode: AdmissionMode) {
        if self.0.load(Ordering::Relaxed) != mode as u8 {
            self.0.store(mode as u8, Ordering::Release);
        }
    }
}
