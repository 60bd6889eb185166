//! For how much of a time commands can have kept the device busy.
//!
//! Of commands that are not seen to complete one by one only the total time is known. Slow launching leaves gaps in it, which must
//! not be charged:
//!
//! ```text
//!   launched  1         2         3
//!   device    |====.....|====.....|====|
//!             '-------- took ----------'
//! ```
//!
//! The third has run since its launch at most. Each ran as long as the others, in proportion to the estimates: so all three took at
//! most three times that. The same holds for the second and the third together.

use crate::Nanos;

/// Upper bound of the busy time of commands that were all done by `by`. `took` is the time from the begin of the first to the end
/// of the last. `commands` has, in order, the earliest begin of each and its expected part of the whole, which is not 0.
///
/// Never less than they took, if they took times in these proportions.
pub(super) fn at_most(
    took: Nanos,
    by: Nanos,
    commands: impl DoubleEndedIterator<Item = (Nanos, u64)> + Clone,
) -> Nanos {
    let whole: u64 = commands.clone().map(|(_, weight)| weight).sum();
    let mut from_here_on = 0;
    // Time per weight; compared without division, since there may be thousands of commands.
    let (time, weight) = commands.rev().fold((took, whole), |(time, weight), (begun, own)| {
        from_here_on += own;
        let since = by - begun;
        let is_less =
            u128::from(since.0) * u128::from(weight) < u128::from(time.0) * u128::from(from_here_on);
        if is_less { (since, from_here_on) } else { (time, weight) }
    });
    // At most `took`, which is the time of the whole.
    u64::try_from(u128::from(time.0) * u128::from(whole) / u128::from(weight.max(1))).map_or(took, Nanos)
}

/// The same if the proportions are unknown, but each command has a time that it hardly ever exceeds. For each command: those up
/// to it took at most their times, and the later ones ran only since its launch. `commands` has, in order, the earliest begin of
/// each and that time.
pub(super) fn possibly(took: Nanos, by: Nanos, commands: impl Iterator<Item = (Nanos, Nanos)>) -> Nanos {
    let mut before = Nanos::ZERO;
    commands.fold(took, |least, (begun, longest)| {
        let here = before + (by - begun);
        before += longest;
        least.min(here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated device: when it has done all, and how long it was busy.
    fn run(commands: &[(u64, u64)], scale: u64) -> (Nanos, Nanos) {
        let (mut end, mut busy) = (0, 0);
        for (begun, weight) in commands {
            end = end.max(*begun) + scale * weight;
            busy += scale * weight;
        }
        (Nanos(end), Nanos(busy))
    }

    fn found(commands: &[(u64, u64)], by: Nanos) -> Nanos {
        let took = by - Nanos(commands[0].0);
        at_most(took, by, commands.iter().map(|&(begun, weight)| (Nanos(begun), weight)))
    }

    #[test]
    fn gaps_between_equal_commands_are_found_exactly() {
        let spaced: Vec<_> = (0..50).map(|command| (command * 256, 1)).collect();
        let at_once = [(7, 1); 50];
        let mixed = [(0, 3), (10, 1), (900, 2), (901, 5), (1_500, 1), (9_000, 4)];
        let late = [(0, 1), (1, 1), (2, 1), (40_000, 1)];
        for commands in [&spaced[..], &at_once, &mixed, &late] {
            for scale in [1, 20, 100, 256, 400] {
                let (end, busy) = run(commands, scale);
                assert_eq!(found(commands, end), busy, "{scale} times {commands:?}");
            }
        }
    }

    #[test]
    fn a_late_look_never_finds_less_than_they_took() {
        let spaced: Vec<_> = (0..10).map(|command| (command * 256, 1)).collect();
        let (end, busy) = run(&spaced, 100);
        let mut before = busy;
        for late in [1, 10, 100, 1_000, 100_000] {
            let later = found(&spaced, end + Nanos(late));
            assert!(later >= before && later <= end + Nanos(late), "{late} late: {later:?}");
            before = later;
        }
    }

    #[test]
    fn commands_that_may_be_unlike_are_not_taken_as_equal() {
        // 150, then 10 and 10 when they are launched: the 10 of the last say nothing about the first.
        let launched = [0, 200, 400].map(Nanos);
        let each = |longest: u64| launched.map(|begun| (begun, Nanos(longest))).into_iter();
        assert_eq!(found(&[(0, 1), (200, 1), (400, 1)], Nanos(410)), Nanos(30));
        assert_eq!(possibly(Nanos(410), Nanos(410), each(150)), Nanos(310), "170 at least");
        assert_eq!(possibly(Nanos(410), Nanos(410), each(10)), Nanos(30));
        assert_eq!(possibly(Nanos(410), Nanos(410), each(900)), Nanos(410));
    }

    #[test]
    fn one_command_is_bounded_by_the_time_alone() {
        assert_eq!(at_most(Nanos(70), Nanos(100), [(Nanos(0), 9)].into_iter()), Nanos(70));
    }
}
