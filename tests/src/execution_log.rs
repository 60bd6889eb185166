//! The log of the simulated device: its processes write the kernels to the file `HIP_SIM_EXECUTION_LOG`.

use std::{fs, io, path::Path, str::FromStr};

/// One kernel on the device's timeline. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// When it started.
    pub start_ns: u64,
    /// When it ended, or would have ended if its process died.
    pub end_ns: u64,
    /// When it was launched.
    pub submitted_ns: u64,
    /// The process that launched it.
    pub pid: u32,
    /// Index of the device.
    pub device: u32,
    /// Hardware queue, numbered over all processes of the device.
    pub queue: u32,
    /// Stream of the process, in the order of creation; the devices' null streams come first.
    pub stream: u32,
    /// Mangled name.
    pub kernel: String,
}

/// A line that is not an entry of the log.
#[derive(Debug, thiserror::Error)]
#[error("not a line of an execution log: `{0}`")]
pub struct BadLine(String);

/// All kernels, ordered by start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline(Vec<Execution>);

/// Two points in time, nanoseconds of `CLOCK_BOOTTIME`.
pub type SpanNs = (u64, u64);

impl Timeline {
    /// Reads a log. It ignores an incomplete last line, which is still being written.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not such a log.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let executions: Result<Vec<Execution>, _> = whole.lines().map(str::parse).collect();
        Ok(Self::new(executions.map_err(io::Error::other)?))
    }

    fn new(mut executions: Vec<Execution>) -> Self {
        executions.sort_by_key(|execution| execution.start_ns);
        Self(executions)
    }

    /// The kernels of some processes, as a timeline of their own.
    #[must_use]
    pub fn of(&self, pids: &[u32]) -> Self {
        Self(self.0.iter().filter(|execution| pids.contains(&execution.pid)).cloned().collect())
    }

    /// The kernels on one device.
    #[must_use]
    pub fn on(&self, device: u32) -> Self {
        Self(self.0.iter().filter(|execution| execution.device == device).cloned().collect())
    }

    /// The kernels.
    #[must_use]
    pub fn kernels(&self) -> &[Execution] {
        &self.0
    }

    /// Number of kernels that started in a span, its end excluded.
    #[must_use]
    pub fn starts_in(&self, (from_ns, to_ns): SpanNs) -> usize {
        let before = |time_ns: u64| self.0.partition_point(|execution| execution.start_ns < time_ns);
        before(to_ns).saturating_sub(before(from_ns))
    }

    /// Number of kernels that were launched in a span, its end excluded.
    #[must_use]
    pub fn submitted_in(&self, (from_ns, to_ns): SpanNs) -> usize {
        self.0.iter().filter(|execution| (from_ns..to_ns).contains(&execution.submitted_ns)).count()
    }

    /// Device time in a span divided by its length: 1 for a device that runs one kernel after another without gaps.
    #[must_use]
    pub fn share(&self, (from_ns, to_ns): SpanNs) -> f64 {
        let inside = |execution: &Execution| {
            execution.end_ns.min(to_ns).saturating_sub(execution.start_ns.max(from_ns))
        };
        self.0.iter().map(inside).sum::<u64>() as f64 / to_ns.saturating_sub(from_ns).max(1) as f64
    }

    /// The longest time in a span without a kernel.
    #[must_use]
    pub fn longest_gap_ns(&self, (from_ns, to_ns): SpanNs) -> u64 {
        let mut free_ns = from_ns;
        let mut longest_ns = 0;
        for execution in self.0.iter().filter(|execution| execution.end_ns > from_ns) {
            longest_ns = longest_ns.max(execution.start_ns.min(to_ns).saturating_sub(free_ns));
            free_ns = free_ns.max(execution.end_ns);
        }
        longest_ns.max(to_ns.saturating_sub(free_ns))
    }
}

impl FromStr for Execution {
    type Err = BadLine;

    fn from_str(line: &str) -> Result<Self, BadLine> {
        let parse = || {
            let mut fields = line.splitn(8, ' ');
            let mut number = || fields.next()?.parse::<u64>().ok();
            Some(Self {
                start_ns: number()?,
                end_ns: number()?,
                submitted_ns: number()?,
                pid: number()?.try_into().ok()?,
                device: number()?.try_into().ok()?,
                queue: number()?.try_into().ok()?,
                stream: number()?.try_into().ok()?,
                kernel: fields.next()?.to_owned(),
            })
        };
        parse().ok_or_else(|| BadLine(line.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_ordered_by_start_and_an_incomplete_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "9 11 2 42 0 3 1 late kernel\n5 9 1 42 0 2 0 early\n12 1").unwrap();
        let timeline = Timeline::read(&path).unwrap();
        let found = timeline.kernels();
        assert_eq!(found.iter().map(|e| e.kernel.as_str()).collect::<Vec<_>>(), ["early", "late kernel"]);
        assert_eq!((found[1].submitted_ns, found[1].pid, found[1].queue, found[1].stream), (2, 42, 3, 1));
    }

    /// Two processes that alternate: 10 ns, 20 ns, 10 ns, 20 ns.
    fn by_turns() -> Timeline {
        let kernels = [(100, 110, 1), (110, 130, 2), (130, 140, 1), (140, 160, 2)];
        let lines = kernels.map(|(start, end, pid)| format!("{start} {end} 90 {pid} 0 0 0 step"));
        Timeline::new(lines.iter().map(|line| line.parse().unwrap()).collect())
    }

    #[test]
    fn a_share_counts_only_time_within_the_span() {
        let timeline = by_turns();
        assert!((timeline.share((100, 160)) - 1.0).abs() < 1e-9);
        assert!((timeline.of(&[1]).share((105, 125)) - 0.25).abs() < 1e-9);
        assert!(timeline.on(1).share((100, 160)).abs() < 1e-9);
    }

    #[test]
    fn the_end_of_a_span_is_excluded_from_counts_of_starts() {
        assert_eq!(by_turns().of(&[2]).starts_in((110, 140)), 1);
        assert_eq!(by_turns().of(&[2]).starts_in((111, 141)), 1);
        assert_eq!(by_turns().starts_in((0, 1000)), 4);
    }

    #[test]
    fn a_gap_may_be_at_either_end_of_a_span() {
        let timeline = by_turns().of(&[2]);
        assert_eq!(timeline.longest_gap_ns((110, 160)), 10);
        assert_eq!(timeline.longest_gap_ns((50, 160)), 60);
        assert_eq!(timeline.longest_gap_ns((120, 200)), 40);
        assert_eq!(timeline.longest_gap_ns((20, 30)), 10);
    }

    #[test]
    fn another_file_is_an_error_that_shows_the_line() {
        assert_eq!(
            "launch vector_add 3".parse::<Execution>().unwrap_err().to_string(),
            "not a line of an execution log: `launch vector_add 3`"
        );
    }
}
