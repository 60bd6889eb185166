//! Verdicts of tests: calls get all verdicts at random. Whatever their verdicts, a program computes the same.
//!
//! `XSCHED_TEST_VERDICTS=random[:seed]`; the seed (1) makes the verdicts repeatable, though not which thread gets
//! which.

use std::sync::atomic::{AtomicU64, Ordering};

use xsched_preload::env;
use xsched_protocol::verdict::{Action, Judgement, RuleId};

const UNKNOWN: u64 = 0;
const OFF: u64 = 1;

/// Marsaglia's xorshift, or one of the numbers above, which it is very unlikely to reach.
static STATE: AtomicU64 = AtomicU64::new(UNKNOWN);

/// A random judgement, if a test asks for that.
pub(super) fn judgement() -> Option<Judgement> {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        STATE.store(env::test_verdicts().and_then(|asked| seed(&asked)).unwrap_or(OFF), Ordering::Relaxed);
    }
    // Threads that run this at once may draw the same.
    let state = STATE.load(Ordering::Relaxed);
    if state == OFF {
        return None;
    }
    let next = step(state);
    STATE.store(next, Ordering::Relaxed);
    let (action, level) = match next >> 32 & 7 {
        0 | 1 => (Action::NeverSuspend, 0),
        2 | 3 => (Action::Passthrough, 0),
        4 => (Action::Schedule, 1),
        _ => (Action::Schedule, 0),
    };
    Some(Judgement::new(action, level, RuleId::UNNUMBERED))
}

fn seed(asked: &str) -> Option<u64> {
    let (name, seed) = asked.split_once(':').unwrap_or((asked, "1"));
    (name == "random").then_some(())?;
    Some(step(seed.parse::<u64>().ok()?.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ state << 17
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_asked_for_by_name() {
        assert_eq!(seed("random"), seed("random:1"));
        assert_ne!(seed("random:2"), seed("random:1"));
        for wrong in ["", "random:", "random:x", "always", "random:1:2"] {
            assert_eq!(seed(wrong), None, "{wrong}");
        }
    }
}
