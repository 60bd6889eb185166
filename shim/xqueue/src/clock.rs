//! The clock of launches and completions.

use rustix::time::{ClockId, clock_gettime};
use xsched_sched::Nanos;

/// The time by this module's clock: it never goes back.
pub fn now() -> Nanos {
    #[cfg(test)]
    if let Some(now) = tests::stopped_at() {
        return now;
    }
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// For tests whose outcome must not depend on how fast the machine is: the clock stands still until the test advances it.
#[cfg(test)]
pub(crate) mod tests {
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
}
