use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_sched::Nanos;

/// A clock that stands still. Threads that have entered it see its time instead of the machine's.
#[derive(Clone, Debug)]
pub(crate) struct Stopped(Arc<AtomicU64>);

thread_local! {
    static CLOCK: RefCell<Option<Stopped>> = const { RefCell::new(None) };
}

impl Stopped {
    /// Stops the clock of this thread, and of the workers that its queues start.
    pub(crate) fn now() -> Self {
        let stopped = Self(Arc::new(AtomicU64::new(super::now().0)));
        stopped.clone().enter();
        stopped
    }

    /// That of this thread, for another one.
    pub(crate) fn of_this_thread() -> Option<Self> {
        CLOCK.with_borrow(Clone::clone)
    }

    /// From now on this thread's time.
    pub(crate) fn enter(self) {
        CLOCK.set(Some(self));
    }

    pub(crate) fn advance(&self, by: Nanos) {
        self.0.fetch_add(by.0, Ordering::SeqCst);
    }
}

/// The time of this thread's clock, if that stands still.
pub(super) fn stopped_at() -> Option<Nanos> {
    CLOCK.with_borrow(|clock| clock.as_ref().map(|Stopped(at)| Nanos(at.load(Ordering::SeqCst))))
}
