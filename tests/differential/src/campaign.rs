//! Runs many programs with and without the shim, and reports differences.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::{fmt, fs, io};

use crate::client::{self, Failure, Report};
use crate::generate::generate;
use crate::mode::{Mode, Paths};
use crate::program::Program;
use crate::shrink::shrink;

/// Programs run in one process.
pub const PROGRAMS_PER_PROCESS: u64 = 200;

/// The fault in a program's run.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The outcome differs from that without the shim.
    Differs,
    /// An impossible return code without the shim: the runtime or the model of it is wrong.
    ImpossibleCode,
    /// The run did not finish.
    Failed(Failure),
}

/// A program whose run has a fault.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Seed of the program.
    pub seed: u64,
    /// How the program was run.
    pub mode: Mode,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} on {}: ", self.seed, self.mode)?;
        match &self.fault {
            Fault::Differs => f.write_str("differs from the runtime alone"),
            Fault::ImpossibleCode => f.write_str("has an impossible return code"),
            Fault::Failed(failure) => failure.fmt(f),
        }
    }
}

/// Runs the programs of these seeds natively and with the shim.
pub fn compare(mode: &Mode, paths: &Paths, seeds: Range<u64>) -> Vec<Finding> {
    let natively = native_reports(mode.major, paths, seeds.clone());
    let with_shim = shim_reports(mode, paths, &natively, seeds.clone());
    judge(mode, &natively, &with_shim, seeds)
}

/// Runs the programs of these seeds without the shim.
pub fn native_reports(major: u32, paths: &Paths, seeds: Range<u64>) -> Reports {
    all_reports(&Mode::native(major), paths, seeds, |report| report.impossible_codes > 0)
}

/// Runs the programs of these seeds with the shim. After a difference it continues in a new process, since
/// faults persist.
pub fn shim_reports(mode: &Mode, paths: &Paths, natively: &Reports, seeds: Range<u64>) -> Reports {
    all_reports(mode, paths, seeds, |report| {
        natively.digests.get(&report.number).is_none_or(|alone| alone.digest != report.digest)
    })
}

/// One mode's reports by seed, and the seeds at which clients failed.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    digests: BTreeMap<u64, Report>,
    failures: BTreeMap<u64, Failure>,
}

/// A failure ends one program; the next ones run in a new process.
fn all_reports(mode: &Mode, paths: &Paths, seeds: Range<u64>, is_last: impl Fn(&Report) -> bool) -> Reports {
    let mut all = Reports::default();
    let mut next = seeds.start;
    while next < seeds.end {
        let count = PROGRAMS_PER_PROCESS.min(seeds.end - next);
        let words = [next.to_string(), count.to_string()];
        // After a device fault nothing in that process can be compared.
        let is_last = |report: &Report| is_last(report) || generate(report.number).has_fault();
        let (reports, result) = client::reports(mode, paths, &["seeds", &words[0], &words[1]], is_last);
        next += reports.len() as u64;
        all.digests.extend(reports.into_iter().map(|report| (report.number, report)));
        if let Err(failure) = result {
            let is_hopeless = matches!(failure, Failure::NotRun(_));
            all.failures.insert(next, failure);
            next = if is_hopeless { seeds.end } else { next + 1 };
        }
    }
    all
}

/// Compares both sides and collects their faults.
pub fn judge(mode: &Mode, natively: &Reports, with_shim: &Reports, seeds: Range<u64>) -> Vec<Finding> {
    let native = &Mode::native(mode.major);
    let mut findings = Vec::new();
    for seed in seeds {
        let mut find = |mode: &Mode, fault| findings.push(Finding { seed, mode: mode.clone(), fault });
        let alone = natively.digests.get(&seed);
        if let Some(failure) = natively.failures.get(&seed) {
            find(native, Fault::Failed(failure.clone()));
        } else if alone.is_some_and(|report| report.impossible_codes > 0) {
            find(native, Fault::ImpossibleCode);
        } else if let Some(failure) = with_shim.failures.get(&seed) {
            find(mode, Fault::Failed(failure.clone()));
        } else if let (Some(alone), Some(with)) = (alone, with_shim.digests.get(&seed))
            && alone.digest != with.digest
        {
            find(mode, Fault::Differs);
        }
    }
    findings
}

/// Whether any run of a program with the shim differs from one without, or fails.
///
/// # Errors
///
/// Fails if the program cannot be passed to a client.
pub fn differs(program: &Program, mode: &Mode, paths: &Paths, runs: u32) -> io::Result<bool> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), program.to_string())?;
    differs_in(file.path(), mode, paths, runs)
}

/// Like [`differs`], for a program in a file.
///
/// # Errors
///
/// Fails if the file cannot be read or its name is not text.
pub fn differs_in(file: &Path, mode: &Mode, paths: &Paths, runs: u32) -> io::Result<bool> {
    let native = Mode::native(mode.major);
    let (alone, result) = repeated(&native, paths, file, 2, |_| false)?;
    let Some(expected) = alone.first().filter(|_| result.is_ok()) else { return Ok(true) };
    if alone.iter().any(|report| report.digest != expected.digest || report.impossible_codes > 0) {
        return Ok(true);
    }
    let (with, result) = repeated(mode, paths, file, runs, |report| report.digest != expected.digest)?;
    Ok(result.is_err() || with.iter().any(|report| report.digest != expected.digest))
}

/// Up to `runs` runs of a program in a file, each in its own process if the program ends in a device fault.
fn repeated(
    mode: &Mode,
    paths: &Paths,
    file: &Path,
    runs: u32,
    is_last: impl Fn(&Report) -> bool,
) -> io::Result<(Vec<Report>, Result<(), Failure>)> {
    let name = file.to_str().ok_or_else(|| io::Error::other("the file's name is not text"))?;
    let program = Program::parse(&fs::read_to_string(file)?).map_err(io::Error::other)?;
    if !program.has_fault() {
        return Ok(client::reports(mode, paths, &["repeat", name, &runs.to_string()], is_last));
    }
    let mut all = Vec::new();
    for _ in 0..runs {
        let (reports, result) = client::reports(mode, paths, &["repeat", name, "1"], &is_last);
        let is_over = result.is_err() || reports.iter().any(&is_last);
        all.extend(reports);
        if is_over {
            return Ok((all, result));
        }
    }
    Ok((all, Ok(())))
}

/// The smallest program found that still shows the finding's fault; none if the fault does not occur again.
///
/// # Errors
///
/// Like [`differs`].
pub fn minimal(finding: &Finding, paths: &Paths, runs: u32) -> io::Result<Option<Program>> {
    let program = generate(finding.seed);
    let show = |program: &Program| differs(program, &finding.mode, paths, runs);
    if !show(&program)? {
        return Ok(None);
    }
    shrink(program, show).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::Way;

    fn reports(digests: &[(u64, u64, u64)], failures: &[u64]) -> Reports {
        let report =
            |&(number, digest, impossible_codes)| (number, Report { number, digest, impossible_codes });
        let failure = |seed: &u64| (*seed, Failure::Hang(String::new()));
        Reports {
            digests: digests.iter().map(report).collect(),
            failures: failures.iter().map(failure).collect(),
        }
    }

    #[test]
    fn each_program_has_one_finding_and_the_runtimes_first() {
        let natively = reports(&[(0, 1, 0), (1, 1, 0), (2, 1, 1), (3, 1, 0)], &[4]);
        let with_shim = reports(&[(0, 1, 0), (1, 2, 0), (2, 2, 0), (4, 1, 0)], &[3]);
        let findings = judge(&Mode::with_shim(6, Way::Symbols), &natively, &with_shim, 0..5);
        let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
        let expected = [
            "seed 1 on symbols 6: differs from the runtime alone",
            "seed 2 on native 6: has an impossible return code",
            "seed 3 on symbols 6: hangs\n",
            "seed 4 on native 6: hangs\n",
        ];
        assert_eq!(texts, expected);
    }
}
