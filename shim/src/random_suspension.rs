//! A test's scheduler: suspends and resumes the process and its streams at random, as hard as it can.
//!
//! `XSCHED_TEST_SUSPEND=random[:seed[:rate]]` starts it with the first HIP call. `seed` (1) makes the decisions
//! repeatable, though not their moments; `rate` (20000) is how many decisions are made in a second, about.
//! Every suspension ends after a few decisions, so programs go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::{defer, env, threads};

const SEED: u64 = 1;
const RATE: u64 = 20_000;

/// One of so many decisions lets everything go.
const RESUME_ALL: u64 = 8;

static STARTED: AtomicBool = AtomicBool::new(false);

/// In a forked child: the thread is its parent's.
pub(crate) fn begin_afresh() {
    STARTED.store(false, Ordering::Relaxed);
}

/// Starts it, once, if the environment says so.
pub(crate) fn start_if_asked() {
    if STARTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(asked) = env::test_suspend() else { return };
    let Some((seed, rate)) = parse(&asked) else { return };
    // Without a thread nothing is suspended.
    let _ = threads::start("xsched-test", move || run(seed, rate));
}

/// Seed and rate.
fn parse(asked: &str) -> Option<(u64, u64)> {
    let mut parts = asked.split(':');
    if parts.next() != Some("random") {
        return None;
    }
    let mut number = |default| parts.next().map_or(Some(default), |part| part.parse().ok());
    let (seed, rate) = (number(SEED)?, number(RATE)?);
    Some((seed, rate.clamp(1, 1_000_000)))
}

fn run(seed: u64, rate: u64) {
    let deferral = defer::deferral();
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    let pause_us_max = 2_000_000 / rate;
    loop {
        match random.below(RESUME_ALL) {
            0 => deferral.resume(),
            1 | 2 => deferral.suspend_process(true),
            3 => deferral.suspend_process(false),
            _ => deferral.suspend_one(random.below(1 << 16) as usize, random.below(2) == 0),
        }
        match random.below(4) {
            // At once: the next decision meets callers half-way.
            0 => {}
            1 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(random.below(pause_us_max.max(1)))),
        }
    }
}

/// Marsaglia's xorshift: only needs to be different with each seed.
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
    fn the_variable_has_up_to_three_parts() {
        assert_eq!(parse("random"), Some((SEED, RATE)));
        assert_eq!(parse("random:7"), Some((7, RATE)));
        assert_eq!(parse("random:7:100"), Some((7, 100)));
        assert_eq!(parse("random:7:0"), Some((7, 1)));
        assert_eq!(parse("never"), None);
        assert_eq!(parse("random:x"), None);
    }
}
