//! The time by the processor's counter, for launches beside other processes: they need two times each.
//!
//! The C library's clock reads the counter only when all earlier loads are done, which costs a launch 100 ns each time in place of 20
//! (*H100*). Here nothing is waited for. The watcher compares counter and clock now and then, and a time is that of the last comparison
//! and the ticks since. Where that says nothing, the clock is read: no comparison so far or for long, a counter that was reset, a
//! kernel that does not trust the counter. A counter that says nothing is not read: a program may forbid that to itself.
//!
//! ```text
//!   anchor (ticks, ns) ----- 1 to 10 ms ----- anchor ---- ticks of a launch: ns + rate * ticks since
//! ```

use std::arch::x86_64::_rdtsc;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use xsched_sched::Nanos;

/// Bits of a rate behind the point.
const FRACTION: u32 = 32;

/// The least time between two comparisons, and the least between those that tell the rate.
const COMPARED_EVERY: Nanos = Nanos::from_millis(1);
const RATE_AFTER: Nanos = Nanos::from_millis(10);

/// For how long a comparison says anything.
const LASTS: Nanos = Nanos::from_millis(100);

/// How often both are read for a comparison: the shortest reading counts.
const READINGS: usize = 4;

/// A reading of both that took longer was interrupted.
const READ_WITHIN: Nanos = Nanos::from_micros(2);

/// What all threads know of the counter. One thread writes: the watcher.
static COUNTER: Counter = Counter::new();

/// The last comparison of counter and clock.
#[derive(Debug)]
struct Counter {
    /// Odd while the others are written.
    version: AtomicU64,
    ticks: AtomicU64,
    ns: AtomicU64,
    /// Nanoseconds of a tick, with [`FRACTION`]; 0 as long as it is not known, and so for good of a counter that is not trusted.
    rate: AtomicU64,
}

/// How long so many ticks take at this rate.
#[inline]
fn time_of(ticks: u64, rate: u64) -> Nanos {
    let ns = (u128::from(ticks) * u128::from(rate)) >> FRACTION;
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// The time, if the counter tells it: as [`super::now`], but it may be read before what stands before it in the program, and differ by the
/// difference of two comparisons.
#[inline]
pub(super) fn now() -> Option<Nanos> {
    COUNTER.at(read)
}

/// Called only where the kernel takes its own time from the counter.
#[inline]
fn read() -> u64 {
    // SAFETY: the counter is read without a precondition, unless the program forbids that to itself (`PR_SET_TSC`). Then the C library's
    // clock, which reads the counter there, is forbidden as well.
    unsafe { _rdtsc() }
}

impl Counter {
    const fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            rate: AtomicU64::new(0),
        }
    }

    /// The time when `read` is called. It is not without a rate.
    #[inline]
    fn at(&self, read: impl FnOnce() -> u64) -> Option<Nanos> {
        let version = self.version.load(Ordering::Acquire);
        let (anchor, ns) = (self.ticks.load(Ordering::Relaxed), self.ns.load(Ordering::Relaxed));
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return None;
        }
        let ticks = read();
        // Pairs with the fence in `set`.
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        // A counter that was reset is behind, which makes a large difference.
        let since = time_of(ticks.wrapping_sub(anchor), rate);
        (is_whole && since < LASTS).then(|| Nanos(ns) + since)
    }

    fn set(&self, ticks: u64, ns: u64, rate: u64) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.ticks.store(ticks, Ordering::Relaxed);
        self.ns.store(ns, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }
}

/// Compares counter and clock. A process has one, on its watcher's thread.
#[derive(Debug)]
pub(crate) struct Comparison {
    is_trusted: bool,
    /// The last one, and the one from which the rate is learnt.
    last: Option<(u64, Nanos)>,
    base: Option<(u64, Nanos)>,
    rate: u64,
}

impl Comparison {
    /// None was made.
    pub(crate) fn new() -> Self {
        COUNTER.set(0, 0, 0);
        Self { is_trusted: is_trusted(), last: None, base: None, rate: 0 }
    }

    /// Compares them, unless that was done a short time ago.
    pub(crate) fn renew(&mut self, clock: impl Fn() -> Nanos) {
        if !self.is_trusted {
            return;
        }
        if self.last.is_some_and(|(_, last)| clock() < last + COMPARED_EVERY) {
            return;
        }
        if let Some((before, at, after)) = shortest_reading(clock) {
            self.compared(&COUNTER, before, at, after);
        }
    }

    fn compared(&mut self, counter: &Counter, before: u64, at: Nanos, after: u64) {
        let took = after.wrapping_sub(before);
        // Without a rate, the time of ticks is zero.
        if time_of(took, self.rate) > READ_WITHIN {
            return;
        }
        let ticks = before.wrapping_add(took / 2);
        match self.base {
            // The clock stands still while the machine sleeps, and the counter may restart.
            Some((_, base)) if at - base > LASTS => (self.base, self.rate) = (Some((ticks, at)), 0),
            Some((base_ticks, base)) if at - base >= RATE_AFTER => {
                let passed = u128::from(ticks.wrapping_sub(base_ticks)).max(1);
                self.rate = u64::try_from((u128::from((at - base).0) << FRACTION) / passed).unwrap_or(0);
                self.base = Some((ticks, at));
            }
            Some(_) => {}
            None => self.base = Some((ticks, at)),
        }
        self.last = Some((ticks, at));
        counter.set(ticks, at.0, self.rate);
    }
}

/// The counter, the clock and the counter again. As long as there is no rate, nothing else tells an interrupted reading.
fn shortest_reading(clock: impl Fn() -> Nanos) -> Option<(u64, Nanos, u64)> {
    let readings = (0..READINGS).map(|_| (read(), clock(), read()));
    readings.min_by_key(|(before, _, after)| after.wrapping_sub(*before))
}

/// Whether the kernel takes its own time from the counter: it has checked that it is steady, and alike on all processors.
fn is_trusted() -> bool {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|source| source.trim_end() == "tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared at these times, with three ticks a nanosecond.
    fn compared(comparison: &mut Comparison, counter: &Counter, times: impl IntoIterator<Item = u64>) {
        for ms in times {
            comparison.compared(counter, 3_000_000 * ms, Nanos::from_millis(ms), 3_000_000 * ms + 60);
        }
    }

    fn untrusted() -> Comparison {
        Comparison { is_trusted: false, last: None, base: None, rate: 0 }
    }

    /// A program may have forbidden it.
    #[test]
    fn a_counter_that_is_not_trusted_is_not_read() {
        let counter = Counter::new();
        assert_eq!(counter.at(|| panic!("it is read")), None);
    }

    #[test]
    fn ticks_tell_the_time_once_their_rate_is_known() {
        let (counter, mut comparison) = (Counter::new(), untrusted());
        compared(&mut comparison, &counter, [1, 5, 10]);
        assert_eq!(counter.at(|| 30_000_030), None, "9 ms say too little");
        compared(&mut comparison, &counter, [12]);
        let at = |ns: u64| counter.at(|| 3 * ns + 30).unwrap();
        assert_eq!(at(12_000_000), Nanos(12_000_000));
        assert!((Nanos(12_499_999)..=Nanos(12_500_001)).contains(&at(12_500_000)), "{:?}", at(12_500_000));
    }

    #[test]
    fn ticks_say_nothing_long_after_a_comparison_or_before_it() {
        let (counter, mut comparison) = (Counter::new(), untrusted());
        compared(&mut comparison, &counter, [1, 12]);
        assert!(counter.at(|| 3 * 100_000_000).is_some());
        assert_eq!(counter.at(|| 3 * 113_000_000), None);
        assert_eq!(counter.at(|| 3 * 11_000_000), None, "the counter was reset");
    }

    #[test]
    fn a_sleep_of_the_machine_does_not_become_a_rate() {
        let (counter, mut comparison) = (Counter::new(), untrusted());
        compared(&mut comparison, &counter, [1, 12]);
        // An hour of ticks in 10 ms of the clock, and after that as before.
        let later = 3 * 3_600_000_000_000;
        for ms in [200, 205] {
            comparison.compared(
                &counter,
                later + 3_000_000 * ms,
                Nanos::from_millis(ms),
                later + 3_000_000 * ms,
            );
        }
        assert_eq!(counter.at(|| later + 3_000_000 * 206), None, "the rate is learnt again");
    }

    #[test]
    fn an_interrupted_reading_counts_for_nothing() {
        let (counter, mut comparison) = (Counter::new(), untrusted());
        compared(&mut comparison, &counter, [1, 12]);
        comparison.compared(&counter, 3 * 20_000_000, Nanos::from_millis(20), 3 * 20_010_000);
        let at = counter.at(|| 3 * 20_000_000 + 30).unwrap();
        assert!((Nanos(19_999_990)..=Nanos(20_000_010)).contains(&at), "{at:?}");
    }

    #[test]
    fn the_machines_counter_and_its_clock_agree() {
        let (counter, mut comparison) = (Counter::new(), untrusted());
        let clock = super::super::now;
        for _ in 0..3 {
            let (before, at, after) = shortest_reading(clock).unwrap();
            comparison.compared(&counter, before, at, after);
            std::thread::sleep(std::time::Duration::from_millis(11));
        }
        // On a busy machine a reading may be interrupted.
        let is_near = |_| {
            let (earliest, told, latest) = (clock(), counter.at(read), clock());
            told.is_none_or(|told| {
                told + Nanos::from_micros(50) > earliest && told < latest + Nanos::from_micros(50)
            })
        };
        assert!((0..100).any(is_near));
    }
}
