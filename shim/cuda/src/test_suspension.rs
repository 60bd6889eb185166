//! A test's scheduler: a thread that suspends and resumes the process at random, from its first use of a device on.
//!
//! `XSCHED_TEST_SUSPEND` is `random[:seed[:rate]]`: `seed` (1) makes the decisions repeatable, though not their times; `rate`
//! (20000) is roughly how many are made in a second. Every suspension ends, so programs go on.

use std::thread;
use std::time::Duration;

use xsched_preload::env;
use xsched_xqueue::{XQueues, threads};

use crate::counters::{Counter, count};
use crate::device::Cuda;

const SEED: u64 = 1;
const RATE: u64 = 20_000;

/// Starts the thread, if the environment asks for it.
pub(crate) fn start_if_configured(queues: &std::sync::Arc<XQueues<Cuda>>) {
    let Some((seed, rate)) = env::test_suspend().and_then(|asked| parse(&asked)) else { return };
    let queues = std::sync::Arc::clone(queues);
    // From this call on, however late the machine runs the thread.
    queues.suspend_all(true);
    let _ = threads::start(
        "xsched-test",
        |_| count(Counter::Trouble),
        move || {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            loop {
                thread::sleep(Duration::from_micros(1_000_000 / rate));
                // xorshift64
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                queues.suspend_all(state >> 63 == 0);
            }
        },
    );
}

fn parse(asked: &str) -> Option<(u64, u64)> {
    let mut parts = asked.split(':');
    (parts.next()? == "random").then_some(())?;
    let mut number = |default| parts.next().map_or(Some(default), |part| part.parse().ok());
    Some((number(SEED)?, number(RATE)?.clamp(1, 1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_and_rate_have_defaults() {
        assert_eq!(parse("random"), Some((SEED, RATE)));
        assert_eq!(parse("random:7:100"), Some((7, 100)));
        assert_eq!((parse("held"), parse("random:x")), (None, None));
    }
}
