//! When commands behind a gate can have begun.
//!
//! A command that has come to a shut gate waits there, and the device does nothing for it meanwhile:
//!
//! ```text
//!   gate     open   | shut           | open
//!   before   =====|                  |
//!   command       '- - - - - - - - - |=====|
//! ```
//!
//! What had passed the gate before runs on behind it.

use std::collections::VecDeque;

use crate::Nanos;

/// Closures that are remembered.
const CLOSURES_MAX: usize = 1024;

/// Who comes so shortly before a gate is shut does not pass it in time.
const PASSING: Nanos = Nanos::from_micros(5);

/// Nor does who waits there if it is open for no longer: a device looks now and then. One that did all the same is mistaken only if
/// it takes longer than the gate is shut for then.
const NOTICING: Nanos = Nanos::from_micros(50);

/// From when until when the gate was shut; None: it still is.
type Closure = (Nanos, Option<Nanos>);

/// The gate of a queue: when it was shut. At first it is open.
#[derive(Debug, Default)]
pub struct Gate {
    closures: VecDeque<Closure>,
}

impl Gate {
    /// It is open, or shut, from now on.
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

    /// Whether it is shut, as far as is known.
    pub(super) fn is_shut(&self) -> bool {
        matches!(self.closures.back(), Some((_, None)))
    }

    /// When a command that comes to the gate at `at`, and was done by `by`, probably passed it.
    pub fn passed(&self, at: Nanos, by: Nanos) -> Nanos {
        let (mut passed, mut needs) = (at, PASSING);
        for &(shut, open) in self.closures.range(self.first_after(at)..) {
            match open {
                // It passes in time, and all others are later.
                _ if passed + needs <= shut => break,
                Some(open) if open <= passed => {}
                Some(open) if open < by => (passed, needs) = (open, NOTICING),
                // It would be done before the gate was open: it had passed.
                _ => break,
            }
        }
        passed
    }

    /// For how much of a time it kept commands that were done at its end. It keeps nobody of these from when on it was shut until
    /// after they were done.
    pub fn shut_for(&self, from: Nanos, to: Nanos) -> Nanos {
        let open_again = |&(shut, open): &Closure| Some((shut, open.filter(|open| *open < to)?));
        let closures = self.closures.range(self.first_after(from)..).map_while(open_again);
        closures.map(|(shut, open)| open - shut.max(from)).sum()
    }

    /// The first closure that lasts longer than that.
    fn first_after(&self, time: Nanos) -> usize {
        self.closures.partition_point(|(_, open)| open.is_some_and(|open| open <= time))
    }

    /// Everything up to then is done.
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

    fn shut(closures: &[(u64, u64)]) -> Gate {
        let mut gate = Gate::default();
        for (shut, open) in closures {
            gate.set(us(*shut), false);
            gate.set(us(*open), true);
        }
        gate
    }

    #[test]
    fn who_comes_while_it_is_shut_waits_until_it_opens() {
        let gate = shut(&[(100, 200), (300, 400)]);
        let passed = |at| gate.passed(us(at), us(1_000)).0 / 1_000;
        let all = [10, 94, 96, 150, 199, 200, 250, 299, 399, 401];
        assert_eq!(all.map(passed), [10, 94, 200, 200, 200, 200, 250, 400, 400, 401]);
    }

    #[test]
    fn a_gap_that_is_too_short_to_pass_in_is_none() {
        let gate = shut(&[(100, 200), (240, 300), (304, 400), (500, 600)]);
        assert_eq!(gate.passed(us(150), us(1_000)), us(400));
        assert_eq!(gate.passed(us(210), us(1_000)), us(210), "it does not wait there");
        assert_eq!(gate.passed(us(150), us(250)), us(200), "it was done while it was shut again");
    }

    #[test]
    fn who_was_done_before_it_opened_had_passed() {
        let mut gate = shut(&[(100, 200)]);
        assert_eq!(gate.passed(us(98), us(150)), us(98));
        assert_eq!(gate.passed(us(150), us(201)), us(200));
        gate.set(us(300), false);
        assert_eq!(gate.passed(us(299), us(320)), us(299), "it is shut still");
    }

    #[test]
    fn a_time_is_shut_for_as_long_as_its_closures_last() {
        let mut gate = shut(&[(100, 200), (300, 400)]);
        assert_eq!(gate.shut_for(us(0), us(1_000)), us(200));
        assert_eq!(gate.shut_for(us(150), us(401)), us(150));
        assert_eq!(gate.shut_for(us(150), us(350)), us(50), "who was done by then had passed");
        gate.set(us(500), false);
        assert_eq!(gate.shut_for(us(450), us(600)), us(0), "it is shut still");
    }

    #[test]
    fn closures_are_forgotten_with_what_is_done_and_are_bounded() {
        let mut gate = shut(&[(100, 200), (300, 400)]);
        gate.forget(us(399));
        assert_eq!(gate.shut_for(us(0), us(1_000)), us(100));
        for turn in 10..10 + 10 * CLOSURES_MAX as u64 {
            gate.set(us(100 * turn), false);
            gate.set(us(100 * turn), false);
            gate.set(us(100 * turn + 10), true);
        }
        assert_eq!(gate.closures.len(), CLOSURES_MAX);
    }
}
