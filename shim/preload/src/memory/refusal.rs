//! For tests: allocations that find no memory, as `XSCHED_TEST_MEMORY` says: `every:N` each Nth one, `after:N` all behind the Nth. A build
//! for users has no way to ask for that.

#[cfg(feature = "test-switches")]
pub use switched::log_refused;
#[cfg(feature = "test-switches")]
pub(super) use switched::refuses;

#[cfg(not(feature = "test-switches"))]
#[inline]
pub(super) fn refuses() -> bool {
    false
}

#[cfg(feature = "test-switches")]
mod switched {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::{env, log};

    /// `every:N` is N, `after:N` is N with this bit.
    const AFTER: u64 = 1 << 32;
    const NONE: u64 = u64::MAX;
    const UNKNOWN: u64 = NONE - 1;

    static WHICH: AtomicU64 = AtomicU64::new(UNKNOWN);
    static ASKED: AtomicU64 = AtomicU64::new(0);
    static REFUSED: AtomicU64 = AtomicU64::new(0);

    /// Writes how many allocations of this shim have found no memory, if any were to.
    pub fn log_refused(shim: &str) {
        if which() != NONE {
            let refused = REFUSED.load(Ordering::Relaxed);
            log::write(&format!("{shim}: memory was refused {refused} times\n"));
        }
    }

    pub(in crate::memory) fn refuses() -> bool {
        let which = which();
        if which == NONE {
            return false;
        }
        let number = 1 + ASKED.fetch_add(1, Ordering::Relaxed);
        let refuses = match which.checked_sub(AFTER) {
            Some(granted) => number > granted,
            None => number.is_multiple_of(which),
        };
        REFUSED.fetch_add(refuses.into(), Ordering::Relaxed);
        refuses
    }

    fn which() -> u64 {
        let known = WHICH.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return known;
        }
        let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
        let which = env::test_memory().and_then(|value| match value.split_once(':')? {
            ("every", n) => number(n).filter(|&n| n > 0),
            ("after", n) => Some(AFTER + number(n)?),
            _ => None,
        });
        WHICH.store(which.unwrap_or(NONE), Ordering::Relaxed);
        which.unwrap_or(NONE)
    }
}
