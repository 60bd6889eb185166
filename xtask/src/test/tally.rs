//! Counts of passed, failed and skipped tests, read from what the runners print.

use std::fmt;

/// Sums over every runner of one `cargo xtask test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Of those that passed: how many failed at first.
    flaky: u64,
    /// What these are called.
    flaky_names: Vec<String>,
    /// A run's summary was read, and the lines behind it are about it.
    is_behind_summary: bool,
}

impl Tally {
    /// Another runner begins.
    pub(crate) fn begin_run(&mut self) {
        self.is_behind_summary = false;
    }

    /// Reads one line; lines that are no summary count nothing.
    ///
    /// * nextest: `     Summary [   0.013s] 3 tests run: 2 passed (1 slow, 1 flaky), 1 failed, 4 skipped`, and behind it, for a
    ///   test that passed when it was tried again, `   FLAKY 2/2 [   0.030s] (1/3) package::binary module::test`
    /// * cargo: `test result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.01s`,
    ///   which nextest repeats, indented, for each test that failed
    pub(crate) fn read(&mut self, line: &str) {
        let line = without_colours(line);
        if self.is_behind_summary {
            self.flaky_names.extend(flaky(&line));
        }
        let counts = if line.trim_start().starts_with("Summary [") {
            self.is_behind_summary = true;
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
                "flaky" => self.flaky += number,
                // nextest counts tests that hung or could not start apart from those that failed.
                "failed" | "timed" | "exec" => self.failed += number,
                "skipped" | "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.flaky > 0 {
            writeln!(f, "NOT RELIABLE: {} of the tests that passed failed at first:", self.flaky)?;
            for name in &self.flaky_names {
                writeln!(f, "  {name}")?;
            }
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The test that a line of nextest's says to have passed when it was tried again.
fn flaky(line: &str) -> Option<String> {
    let (_, test) = line.trim_start().strip_prefix("FLAKY ")?.split_once("] ")?;
    // Newer ones count here.
    let name = test.strip_prefix('(').and_then(|test| test.split_once(") ")).map_or(test, |(_, name)| name);
    Some(name.trim().to_owned())
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

    fn tally(text: &str) -> String {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.read(line));
        tally.to_string()
    }

    #[test]
    fn summaries_of_several_runs_add_up() {
        let text = "\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s\n\
            test a::b ... ok\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(tally(text), "5 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn nextest_counts_hung_and_unstartable_tests_as_failed() {
        let text = "     Summary [   9.013s] 9 tests run: 5 passed (1 slow, 1 leaky), 1 failed, 2 timed out, \
                    1 exec failed, 4 skipped";
        assert_eq!(tally(text), "5 passed, 4 failed, 4 skipped");
    }

    #[test]
    fn what_nextest_quotes_is_not_counted_twice() {
        let text = "  stdout ---\n    test result: FAILED. 0 passed; 1 failed; 0 ignored\n\
                    Summary [   0.1s] 1 test run: 0 passed, 1 failed, 0 skipped";
        assert_eq!(tally(text), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn what_passed_at_a_second_try_is_named() {
        let text = "  TRY 1 FAIL [   0.361s] (\u{2500}\u{2500}\u{2500}) flakyx tests::flaky\n\
                    \x20   FLAKY 2/2 [ quoted ] (1/1) not a test\n\
                    \x1b[33;1m  TRY 2 PASS\x1b[0m [   0.030s] (1/3) \x1b[35;1mflakyx\x1b[0m tests::flaky\n\
                    \x1b[31;1m     Summary\x1b[0m [   0.519s] \x1b[1m4\x1b[0m tests run: \x1b[1m3\x1b[0m \
                    \x1b[32;1mpassed\x1b[0m (1 slow, \x1b[1m2\x1b[0m \x1b[33;1mflaky\x1b[0m), 1 failed, 0 skipped\n\
                    \x1b[33;1m   FLAKY 2/2\x1b[0m [   0.030s] (1/3) \x1b[35;1mflakyx\x1b[0m \x1b[36mtests\x1b[0m::\x1b[34;1mflaky\x1b[0m\n\
                    \x20  FLAKY 2/2 [   0.030s] flakyx::end older\n\
                    \x1b[31;1m  TRY 2 FAIL\x1b[0m [   0.155s] (3/3) flakyx tests::fails\n";
        let expected = "NOT RELIABLE: 2 of the tests that passed failed at first:\n  flakyx tests::flaky\n  \
                        flakyx::end older\n3 passed, 1 failed, 0 skipped";
        assert_eq!(tally(text), expected);
    }

    #[test]
    fn colours_do_not_hide_a_summary() {
        let text = "\x1b[32;1m     Summary\x1b[0m [   0.013s] \x1b[1m2\x1b[0m tests run: \x1b[1m2\x1b[0m \
                    \x1b[32;1mpassed\x1b[0m, \x1b[1m0\x1b[0m \x1b[33;1mskipped\x1b[0m";
        assert_eq!(tally(text), "2 passed, 0 failed, 0 skipped");
    }
}
