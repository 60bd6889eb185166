//! Counts of passed, failed and skipped tests, read from what the runners print.

use std::ops::AddAssign;

/// What one runner says of its tests; sums over several are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Ignored, and those that a filter leaves out.
    pub(crate) skipped: u64,
}

impl Tally {
    /// Reads one line; lines that are no summary count nothing.
    ///
    /// * nextest: `     Summary [   0.013s] 3 tests run: 2 passed (1 slow), 1 failed, 4 skipped`
    /// * cargo: `test result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.01s`,
    ///   which nextest repeats, indented, for each test that failed
    pub(crate) fn read(&mut self, line: &str) {
        let line = without_colours(line);
        let counts = if line.trim_start().starts_with("Summary [") {
            line.split_once("run: ").map(|(_, counts)| counts)
        } else if line.starts_with("test result: ") {
            line.split_once(". ").map(|(_, counts)| counts)
        } else {
            None
        };
        for count in counts.unwrap_or_default().split([',', ';', '(']) {
            let mut words = count.split_whitespace();
            let (Some(Ok(number)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else {
                continue;
            };
            match what.trim_end_matches(')') {
                "passed" => self.passed += number,
                // nextest counts tests that hung or could not start apart from those that failed.
                "failed" | "timed" | "exec" => self.failed += number,
                "skipped" | "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// A line without the terminal's colour sequences (`ESC [ .. m`).
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or(piece, |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> [u64; 3] {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.read(line));
        [tally.passed, tally.failed, tally.skipped]
    }

    #[test]
    fn summaries_of_several_runs_add_up() {
        let text = "\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s\n\
            test a::b ... ok\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(tally(text), [5, 1, 1]);
    }

    #[test]
    fn nextest_counts_hung_and_unstartable_tests_as_failed() {
        let text = "     Summary [   9.013s] 9 tests run: 5 passed (1 slow, 1 leaky), 1 failed, 2 timed out, \
                    1 exec failed, 4 skipped";
        assert_eq!(tally(text), [5, 4, 4]);
    }

    #[test]
    fn what_nextest_quotes_is_not_counted_twice() {
        let text = "  stdout ---\n    test result: FAILED. 0 passed; 1 failed; 0 ignored\n\
                    Summary [   0.1s] 1 test run: 0 passed, 1 failed, 0 skipped";
        assert_eq!(tally(text), [0, 1, 0]);
    }

    #[test]
    fn colours_do_not_hide_a_summary() {
        let text = "\x1b[32;1m     Summary\x1b[0m [   0.013s] \x1b[1m2\x1b[0m tests run: \x1b[1m2\x1b[0m \
                    \x1b[32;1mpassed\x1b[0m, \x1b[1m0\x1b[0m \x1b[33;1mskipped\x1b[0m";
        assert_eq!(tally(text), [2, 0, 0]);
    }
}
