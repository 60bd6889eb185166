//! Who on this machine calls HIP how much: totals per process.
//!
//! Programs that have ended share one line, so memory grows with the number of those that run.

use std::collections::HashMap;
use std::fmt;

use crate::call::HipCall;
use crate::table::{duration, write_table};

/// Totals of all calls seen so far.
#[derive(Default)]
pub(crate) struct Machine {
    running: HashMap<u32, Process>,
    ended: Totals,
    ended_count: u64,
}

struct Process {
    name: String,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    launches: u64,
    launch_ns: u64,
    other_calls: u64,
    other_ns: u64,
}

impl Totals {
    fn add(&mut self, more: Self) {
        self.launches += more.launches;
        self.launch_ns += more.launch_ns;
        self.other_calls += more.other_calls;
        self.other_ns += more.other_ns;
    }

    fn cells(self, id: String, name: String) -> [String; 6] {
        [
            id,
            name,
            self.launches.to_string(),
            duration(Some(self.launch_ns)),
            self.other_calls.to_string(),
            duration(Some(self.other_ns)),
        ]
    }
}

impl Machine {
    /// Counts a call; `name` is asked for the name of a process that is new.
    pub(crate) fn add(&mut self, call: &HipCall, name: impl FnOnce() -> String) {
        let ns = call.duration_ns().unwrap_or(0);
        let more = if call.is_launch() {
            Totals { launches: 1, launch_ns: ns, ..Totals::default() }
        } else {
            Totals { other_calls: 1, other_ns: ns, ..Totals::default() }
        };
        let process = self.running.entry(call.pid);
        process.or_insert_with(|| Process { name: name(), totals: Totals::default() }).totals.add(more);
    }

    /// A program has ended, also where its process goes on with another one.
    pub(crate) fn ended(&mut self, pid: u32) {
        if let Some(process) = self.running.remove(&pid) {
            self.ended.add(process.totals);
            self.ended_count += 1;
        }
    }
}

/// The table for a terminal: most launches first, the ended last.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(pid, process)| {
            std::cmp::Reverse((process.totals.launches, process.totals.other_calls, std::cmp::Reverse(**pid)))
        });
        let header = ["pid", "process", "launches", "total", "other calls", "total"].map(str::to_owned);
        let rows = running
            .into_iter()
            .map(|(pid, process)| process.totals.cells(pid.to_string(), process.name.clone()));
        let ended = (self.ended_count > 0)
            .then(|| self.ended.cells("-".to_owned(), format!("{} that have ended", self.ended_count)));
        write_table(f, &std::iter::once(header).chain(rows).chain(ended).collect::<Vec<_>>(), 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;

    fn made_by(pid: u32, name: &str) -> HipCall {
        HipCall { pid, ..call(name) }
    }

    #[test]
    fn processes_come_and_go() {
        let mut machine = Machine::default();
        for (pid, name, calls) in [(7, "train", 3), (8, "serve", 5), (9, "short", 1), (10, "short", 1)] {
            for _ in 0..calls {
                machine.add(&made_by(pid, "hipLaunchKernel"), || name.to_owned());
            }
        }
        machine.add(&made_by(7, "hipMemcpy"), || unreachable!("the name is known"));
        machine.ended(9);
        machine.ended(10);
        machine.ended(11);
        let table = machine.to_string();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(lines[1][..3], ["8", "serve", "5"]);
        assert_eq!(lines[2][..3], ["7", "train", "3"]);
        assert_eq!(lines[2][4], "1");
        assert_eq!(lines[3][..3], ["-", "2 that have ended", "2"]);
        assert_eq!(lines.len(), 4);
    }
}
