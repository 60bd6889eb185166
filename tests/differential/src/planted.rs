//! Bugs that can be compiled into the shim (`shim/src/planted.rs`, `shim/xqueue/src/planted.rs`), and how many
//! programs it takes to find one.

use std::io;

use crate::campaign::{self, Finding};
use crate::mode::{Mode, Paths, Way};
use crate::program::Program;

/// Their names, as `XSCHED_PLANTED_BUG` accepts them.
pub const BUGS: [&str; 24] = [
    "shallow-arguments",
    "shallow-buffer",
    "shallow-structure",
    "missed-drain",
    "free-without-drain",
    "last-first",
    "overtaking",
    "forced-overtaking",
    "forced-alone",
    "lost-record",
    "null-stream-alone",
    "blocking-stream-alone",
    "early-answer",
    "pageable-deferred",
    "unchecked-launch",
    "early-record",
    "wrong-device",
    "capture-deferred",
    "capture-without-drain",
    "captures-end-together",
    "deferred-after-fault",
    "lost-attribute",
    "lost-stop",
    "shallow-boxes",
];

/// Prefix of bugs that only occur if some calls are never suspended.
const VERDICT_BUGS: &str = "forced-";
/// A bug in a function that only the newest runtime has.
const NEWEST: &str = "shallow-boxes";

/// Number of programs after which a bug counts as not found.
pub const PROGRAMS_MAX: u64 = 20_000;
/// Programs per batch.
const BATCH: u64 = 100;

/// The first program that shows a bug.
#[derive(Clone, Debug)]
pub struct Found {
    /// Number of programs run up to it.
    pub programs: u64,
    /// The finding.
    pub finding: Finding,
    /// The smallest program that shows it; none if it did not occur again.
    pub smallest: Option<Program>,
}

/// Searches for a bug in the programs from a seed on.
///
/// # Errors
///
/// Like [`campaign::differs`].
pub fn find(bug: &'static str, paths: &Paths, first_seed: u64, runs: u32) -> io::Result<Option<Found>> {
    let major = if bug == NEWEST { 7 } else { 6 };
    let mode = Mode::with_shim(major, Way::Symbols).suspended(first_seed + 1);
    let mode = if bug.starts_with(VERDICT_BUGS) { mode.with_random_verdicts(first_seed + 1) } else { mode };
    let mode = Mode { bug: Some(bug), ..mode };
    for batch in 0..PROGRAMS_MAX / BATCH {
        let first = first_seed + batch * BATCH;
        let findings = campaign::compare(&mode, paths, first..first + BATCH);
        let Some(finding) = findings.first().cloned() else { continue };
        // A finding that does not occur again has a seed but no small program; the next finding may have one.
        let mut smallest = None;
        for finding in findings.iter().take(3) {
            smallest = campaign::minimal(finding, paths, runs)?;
            if smallest.is_some() {
                break;
            }
        }
        return Ok(Some(Found { programs: finding.seed - first_seed + 1, finding, smallest }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// With a name that the shim does not know, the search would use a shim without a bug.
    #[test]
    fn the_names_match_the_shims_bugs() {
        let sources = [
            include_str!("../../../shim/src/planted.rs"),
            include_str!("../../../shim/xqueue/src/planted.rs"),
        ];
        let lines = sources.into_iter().flat_map(str::lines);
        let known: BTreeSet<_> =
            lines.filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next()).collect();
        assert_eq!(known, BTreeSet::from(BUGS));
    }
}
