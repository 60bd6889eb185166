//! Bugs that the shim can be compiled with (`shim/src/planted.rs`, `shim/xqueue/src/planted.rs`), and how many programs it takes to find one.

use std::io;

use crate::campaign::{self, Finding};
use crate::mode::{Mode, Places, Way};
use crate::program::Program;

/// Their names, as `XSCHED_PLANTED_BUG` takes them.
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
    "pageable-held-back",
    "unchecked-launch",
    "early-record",
    "wrong-device",
    "capture-held-back",
    "capture-without-drain",
    "captures-end-together",
    "held-back-after-fault",
    "lost-attribute",
    "lost-stop",
    "shallow-boxes",
];

/// They show themselves only where something is never held back.
const OF_TREATMENTS: &str = "forced-";
/// It is of a function that only the newest runtime has.
const NEWEST: &str = "shallow-boxes";

/// Programs after which a bug counts as not found.
pub const PROGRAMS_MAX: u64 = 20_000;
/// Programs at a time.
const BATCH: u64 = 100;

/// The first program that shows a bug.
#[derive(Clone, Debug)]
pub struct Found {
    /// How many programs were run up to it.
    pub programs: u64,
    /// What it showed.
    pub finding: Finding,
    /// The smallest program that shows it; none if it did not show itself again.
    pub smallest: Option<Program>,
}

/// Looks for a bug in programs from a seed on.
///
/// # Errors
///
/// As of [`campaign::differs`].
pub fn find(bug: &'static str, places: &Places, first_seed: u64, runs: u32) -> io::Result<Option<Found>> {
    let major = if bug == NEWEST { 7 } else { 6 };
    let mode = Mode::with_shim(major, Way::Symbols).suspended(first_seed + 1);
    let mode = if bug.starts_with(OF_TREATMENTS) { mode.treated(first_seed + 1) } else { mode };
    let mode = Mode { bug: Some(bug), ..mode };
    for batch in 0..PROGRAMS_MAX / BATCH {
        let first = first_seed + batch * BATCH;
        let findings = campaign::compare(&mode, places, first..first + BATCH);
        let Some(finding) = findings.first().cloned() else { continue };
        // A finding that is gone the next time has a seed and no small program; the next one may have.
        let mut smallest = None;
        for finding in findings.iter().take(3) {
            smallest = campaign::minimal(finding, places, runs)?;
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

    /// A name that the shim does not know would be looked for in a shim without a bug.
    #[test]
    fn the_shim_has_each_of_them_and_no_others() {
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
