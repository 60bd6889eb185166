//! When commands behind a gate can have begun.
//!
//! A command that comes to a closed gate waits there, and the device does nothing for it meanwhile:
//!
//! ```text
//!   gate     open   | closed         | open
//!   before   =====|                  |
//!   command       '- - - - - - - - - |=====|
//! ```
//!
//! A command that had passed the gate before runs on after it closes.

use std::collections::VecDeque;

use crate::Nanos;

/// Closures that are remembered.
const CLOSURES_MAX: usize = 1024;

/// A command that comes this short before the gate closes does not pass in time.
const PASSING: Nanos = Nanos::from_micros(5);

/// A command that waits at the gate passes only if the gate stays open for this long, since a device polls now and then. If one
/// passes earlier, the error matters only if it runs for longer than the gate is closed then.
const NOTICING: Nanos = Nanos::from_micros(50);

/// From when until when the gate was closed; None: it still is.
type Closure = (Nanos, Option<Nanos>);

/// The gate of a queue: when it was closed. At first it is open.
#[derive(Debug, Default)]
pub struct Gate {
    closures: VecDeque<Closure>,
}

impl Gate {
    /// Opens or closes it.
    pub fn set(&mut self, now: Nanos, is_open: bool) {
        match self.closures.back_mut() {
            Some((_, open @ None)) if is_open => *open = Some(now),
            Some((_, None)) => {}
            _ if is_open => {}
            _ => {
                if self.closures.len() >= CLOSURES_MAX {
                    self.closures.pop_front();
                }
                self.closures.push_back((now, None));
            }
        }
    }

    /// Whether it is closed, as far as is known.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.closures.back(), Some((_, None)))
    }

    /// When a command that comes to the gate at `at`, and was done by `by`, probably passed it.
    pub fn passed(&self, at: Nanos, by: Nanos) -> Nanos {
        let (mut passed, mut needs) = (at, PASSING);
        for &(closed, open) in self.closures.range(self.first_after(at)..) {
            match open {
                // It passes in time, and all later closures come after it.
                _ if passed + needs <= closed => break,
                Some(open) if open <= passed => {}
                Some(open) if open < by => (passed, needs) = (open, NOTICING),
                // It was done before the gate opened, so it had passed.
                _ => break,
            }
        }
        passed
    }

    /// How long the gate held commands up that began at `from` at the earliest and were done by `to`. A closing that lasted beyond
    /// `to` held none of them up.
    pub fn closed_for(&self, from: Nanos, to: Nanos) -> Nanos {
        let open_again = |&(closed, open): &Closure| Some((closed, open.filter(|open| *open < to)?));
        let closures = self.closures.range(self.first_after(from)..).map_while(open_again);
        closures.map(|(closed, open)| open - closed.max(from)).sum()
    }

    /// Index of the first closure that ends after this time.
    fn first_after(&self, time: Nanos) -> usize {
        self.closures.partition_point(|(_, open)| open.is_some_and(|open| open <= time))
    }

    /// All commands up to this time are done.
    pub(super) fn forget(&mut self, done: Nanos) {
        while self.closures.pop_front_if(|(_, open)| open.is_some_and(|open| open <= done)).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    fn closed(closures: &[(u64, u64)]) -> Gate {
        let mut gate = Gate::default();
        for (closed, open) in closures {
            gate.set(us(*closed), false);
            gate.set(us(*open), true);
        }
        gate
    }

    #[test]
    fn a_command_at_a_closed_gate_waits_until_it_opens() {
        let gate = closed(&[(100, 200), (300, 400)]);
        let passed = |at| gate.passed(us(at), us(1_000)).0 / 1_000;
        let all = [10, 94, 96, 150, 199, 200, 250, 299, 399, 401];
        assert_eq!(all.map(passed), [10, 94, 200, 200, 200, 200, 250, 400, 400, 401]);
    }

    #[test]
    fn a_gap_that_is_too_short_to_pass_counts_as_closed() {
        let gate = closed(&[(100, 200), (240, 300), (304, 400), (500, 600)]);
        assert_eq!(gate.passed(us(150), us(1_000)), us(400));
        assert_eq!(gate.passed(us(210), us(1_000)), us(210), "it does not wait there");
        assert_eq!(gate.passed(us(150), us(250)), us(200), "it was done while the gate was closed again");
    }

    #[test]
    fn a_command_that_was_done_before_the_gate_opened_had_passed() {
        let mut gate = closed(&[(100, 200)]);
        assert_eq!(gate.passed(us(98), us(150)), us(98));
        assert_eq!(gate.passed(us(150), us(201)), us(200));
        gate.set(us(300), false);
        assert_eq!(gate.passed(us(299), us(320)), us(299), "the gate is still closed");
    }

    #[test]
    fn a_time_is_closed_for_as_long_as_its_closures_last() {
        let mut gate = closed(&[(100, 200), (300, 400)]);
        assert_eq!(gate.closed_for(us(0), us(1_000)), us(200));
        assert_eq!(gate.closed_for(us(150), us(401)), us(150));
        assert_eq!(gate.closed_for(us(150), us(350)), us(50), "a command that was done by then had passed");
        gate.set(us(500), false);
        assert_eq!(gate.closed_for(us(450), us(600)), us(0), "the gate is still closed");
    }

    #[test]
    fn closures_are_forgotten_with_what_is_done_and_are_bounded() {
        let mut gate = closed(&[(100, 200), (300, 400)]);
        gate.forget(us(399));
        assert_eq!(gate.closed_for(us(0), us(1_000)), us(100));
        for round in 10..10 + 10 * CLOSURES_MAX as u64 {
            gate.set(us(100 * round), false);
            gate.set(us(100 * round), false);
            gate.set(us(100 * round + 10), true);
        }
        assert_eq!(gate.closures.len(), CLOSURES_MAX);
    }
}
