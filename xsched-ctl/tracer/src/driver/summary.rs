//! Totals of the calls to the driver, by command.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use xsched_terminal::{duration, write_table};

use super::DriverCall;

/// Totals of all calls seen so far. Memory grows with the number of commands, not of calls.
#[derive(Default)]
pub struct DriverSummary {
    commands: HashMap<Cow<'static, str>, Totals>,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    calls: u64,
    failed: u64,
    total_ns: u64,
    longest_ns: u64,
}

/// Most commands with their own line: programs that make up commands must not fill memory.
const COMMAND_COUNT_MAX: usize = 1024;

/// The line for further commands.
const OTHERS: &str = "others";

impl DriverSummary {
    pub(crate) fn add(&mut self, call: &DriverCall) {
        let mut name = call.name();
        if !self.commands.contains_key(&name) && self.commands.len() >= COMMAND_COUNT_MAX {
            name = OTHERS.into();
        }
        let totals = self.commands.entry(name).or_default();
        let duration_ns = call.duration_ns().unwrap_or(0);
        totals.calls += 1;
        totals.failed += u64::from(call.has_failed());
        totals.total_ns += duration_ns;
        totals.longest_ns = totals.longest_ns.max(duration_ns);
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.commands.values().map(|totals| totals.calls).sum()
    }
}

/// The table for a terminal, most time first.
impl fmt::Display for DriverSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> = self.commands.iter().collect();
        lines.sort_by(|a, b| b.1.total_ns.cmp(&a.1.total_ns).then_with(|| a.0.cmp(b.0)));
        let rows = lines.into_iter().map(|(name, totals)| {
            [
                name.to_string(),
                totals.calls.to_string(),
                totals.failed.to_string(),
                duration(Some(totals.total_ns)),
                duration(Some(totals.longest_ns)),
            ]
        });
        write_table(f, ["driver call", "calls", "failed", "total", "longest"], rows, 1)
    }
}

#[cfg(test)]
mod tests {
    use xsched_abi::Device;

    use super::super::call::tests::call;
    use super::*;

    #[test]
    fn calls_are_counted_by_command_with_their_failures() {
        let mut summary = DriverSummary::default();
        for (ret, end_ns) in [(0, 1_010), (-22, 2_010)] {
            let mut event = call(Device::Kfd, 0xc020_4b08, ret, &[], &[]);
            event.end_ns = Some(end_ns);
            summary.add(&event);
        }
        let mut waiting = call(Device::Kfd, 0xc018_4b0c, 0, &[], &[]);
        waiting.end_ns = None;
        summary.add(&waiting);
        assert_eq!(summary.calls(), 3);
        assert_eq!(
            summary.to_string(),
            "driver call              calls  failed    total  longest\n\
             AMDKFD_IOC_CREATE_EVENT      2       1  3.00 us  2.00 us\n\
             AMDKFD_IOC_WAIT_EVENTS       1       0     0 ns     0 ns\n"
        );
    }

    #[test]
    fn made_up_commands_share_a_line() {
        let mut summary = DriverSummary::default();
        for value in 0..2 * COMMAND_COUNT_MAX as u32 {
            summary.add(&call(Device::Kfd, value, -25, &[], &[]));
        }
        assert_eq!(summary.commands.len(), COMMAND_COUNT_MAX + 1);
        assert_eq!(summary.calls(), 2 * COMMAND_COUNT_MAX as u64);
    }
}
