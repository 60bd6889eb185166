//! A test's scheduler: a thread that suspends and resumes the process and its streams, from the first HIP call on.
//!
//! | `XSCHED_TEST_SUSPEND` | what it does |
//! | --- | --- |
//! | `random[:seed[:rate]]` | suspends and resumes at random, as often as it can |
//! | `held[:ms]` | suspends the whole process, resumes everything after so many milliseconds (50), and so on |
//! | `held-stream[:ms]` | suspends only the first stream with deferred work, in the same way |
//!
//! `seed` (1) makes the decisions repeatable, though not their times; `rate` (20000) is roughly how many decisions
//! are made in a second. Every suspension ends, so programs go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched_preload::env;
use xsched_xqueue::threads;

use crate::defer::deferral::{Deferral, deferral, note_trouble};

const SEED: u64 = 1;
const RATE: u64 = 20_000;

/// One in this many random decisions resumes everything.
const RESUME_ALL: u64 = 8;

const HELD_MS: u64 = 50;

/// The time between two suspensions: long enough for callers that wait in place to notice.
const RUN_TIME: Duration = Duration::from_millis(2);

/// How long the first random suspension waits for a deferred command.
const FIRST: Duration = Duration::from_secs(2);

/// How often the thread checks whether anything is deferred, or a stream is known.
const CHECK_EVERY: Duration = Duration::from_micros(100);

/// What is suspended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Random { seed: u64, rate: u64 },
    Held { what: Held, time: Duration },
}

/// What a pattern suspends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Process,
    FirstStream,
}

static STARTED: AtomicBool = AtomicBool::new(false);

/// In a forked child: the thread is its parent's.
pub(crate) fn renew_after_fork() {
    STARTED.store(false, Ordering::Relaxed);
}

/// Starts the thread, once, if the environment asks for it.
pub(crate) fn start_if_configured() {
    if STARTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(pattern) = env::test_suspend().and_then(|asked| Pattern::parse(&asked)) else { return };
    // From this call on, however late the machine runs the thread.
    deferral().suspend_process(true);
    let started = threads::start("xsched-test", note_trouble, move || match pattern {
        Pattern::Random { seed, rate } => suspend_at_random(seed, rate),
        Pattern::Held { what, time } => hold(what, time),
    });
    if started.is_err() {
        deferral().suspend_process(false);
    }
}

impl Deferral {
    /// Suspends the process, or resumes it.
    fn suspend_process(&self, suspended: bool) {
        self.queues.suspend_all(suspended);
    }

    /// Suspends one of the queues, or resumes it. Any number chooses one.
    ///
    /// False if there is no queue yet.
    fn suspend_one(&self, number: usize, suspended: bool) -> bool {
        let mut queues = self.dependencies().queues();
        queues.sort_unstable();
        let queue = queues.get(number % queues.len().max(1)).copied();
        if let Some(queue) = queue {
            self.queues.suspend(queue, suspended);
        }
        queue.is_some()
    }

    /// Whether anything is deferred, or any call waits.
    fn is_holding(&self) -> bool {
        self.queues.is_deferring()
    }

    /// Resumes everything.
    fn resume(&self) {
        let queues = self.dependencies().queues();
        for queue in queues {
            self.queues.suspend(queue, false);
        }
        self.queues.suspend_all(false);
    }
}

impl Pattern {
    fn parse(asked: &str) -> Option<Self> {
        let mut parts = asked.split(':');
        let name = parts.next()?;
        let mut number = |default| parts.next().map_or(Some(default), |part| part.parse().ok());
        let pattern = match name {
            "random" => Self::Random { seed: number(SEED)?, rate: number(RATE)?.clamp(1, 1_000_000) },
            "held" => Self::Held { what: Held::Process, time: Duration::from_millis(number(HELD_MS)?) },
            "held-stream" => {
                Self::Held { what: Held::FirstStream, time: Duration::from_millis(number(HELD_MS)?) }
            }
            _ => return None,
        };
        parts.next().is_none().then_some(pattern)
    }
}

fn suspend_at_random(seed: u64, rate: u64) {
    let deferral = deferral();
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    let pause_us_max = 2_000_000 / rate;
    // The process is suspended. Without this wait a program may end before this thread runs again, with nothing ever
    // deferred.
    let begin = Instant::now();
    while !deferral.is_holding() && begin.elapsed() < FIRST {
        thread::sleep(CHECK_EVERY);
    }
    loop {
        match random.below(RESUME_ALL) {
            0 => deferral.resume(),
            1 | 2 => deferral.suspend_process(true),
            3 => deferral.suspend_process(false),
            _ => {
                // There may be no queue yet.
                let _ = deferral.suspend_one(random.below(1 << 16) as usize, random.below(2) == 0);
            }
        }
        match random.below(4) {
            // At once: the next decision meets calls that are half done.
            0 => {}
            1 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(random.below(pause_us_max.max(1)))),
        }
    }
}

fn hold(what: Held, time: Duration) {
    let deferral = deferral();
    loop {
        deferral.suspend_process(true);
        if what == Held::FirstStream {
            narrow_to_first_stream(deferral);
        }
        thread::sleep(time);
        deferral.resume();
        deferral.drain();
        thread::sleep(RUN_TIME);
    }
}

/// Suspends one stream instead of the process, as soon as there is one.
fn narrow_to_first_stream(deferral: &Deferral) {
    while !deferral.suspend_one(0, true) {
        thread::sleep(CHECK_EVERY);
    }
    deferral.suspend_process(false);
}

/// Marsaglia's xorshift: it only needs to differ with each seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_a_name_and_numbers() {
        let random = |seed, rate| Some(Pattern::Random { seed, rate });
        assert_eq!(Pattern::parse("random"), random(SEED, RATE));
        assert_eq!(Pattern::parse("random:7"), random(7, RATE));
        assert_eq!(Pattern::parse("random:7:100"), random(7, 100));
        assert_eq!(Pattern::parse("random:7:0"), random(7, 1));

        let held = |what, ms| Some(Pattern::Held { what, time: Duration::from_millis(ms) });
        assert_eq!(Pattern::parse("held"), held(Held::Process, HELD_MS));
        assert_eq!(Pattern::parse("held:2000"), held(Held::Process, 2000));
        assert_eq!(Pattern::parse("held-stream:9"), held(Held::FirstStream, 9));

        for wrong in ["never", "random:x", "random:1:2:3", "held:", "held:1:2", ""] {
            assert_eq!(Pattern::parse(wrong), None, "{wrong}");
        }
    }
}
