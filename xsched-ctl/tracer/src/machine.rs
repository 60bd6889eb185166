//! Totals of calls to GPU runtimes for each process of this machine.
//!
//! Ended processes share one line. They are kept separately for a while, because calls may wait until their chains are
//! known. Then they are summed up, so memory grows with the number of running processes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use xsched_perfetto::ProcessId;
use xsched_terminal::{duration, write_table};

use crate::call::RuntimeCall;

/// Totals of all calls seen so far.
#[derive(Default)]
pub struct Machine {
    rows: HashMap<ProcessId, Row>,
    /// Totals of processes that ended long ago.
    forgotten: Totals,
    forgotten_count: u64,
}

/// A process that calls a GPU runtime.
pub(crate) struct Row {
    name: String,
    ended_ns: Option<u64>,
    totals: Totals,
}

impl Row {
    /// One with the name of its file, which ended at `ended_ns` of `CLOCK_BOOTTIME`, if at all.
    pub(crate) fn new(name: &str, ended_ns: Option<u64>) -> Self {
        Self { name: name.to_owned(), ended_ns, totals: Totals::default() }
    }
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
    /// Counts a call of a process; `new` describes the process if it is new.
    pub(crate) fn add(&mut self, id: ProcessId, call: &RuntimeCall, new: impl FnOnce() -> Row) {
        let ns = call.duration_ns().unwrap_or(0);
        let more = if call.is_launch() {
            Totals { launches: 1, launch_ns: ns, ..Totals::default() }
        } else {
            Totals { other_calls: 1, other_ns: ns, ..Totals::default() }
        };
        self.rows.entry(id).or_insert_with(new).totals.add(more);
    }

    /// A process has ended, or goes on as another program.
    pub(crate) fn ended(&mut self, pid: u32, now_ns: u64) {
        for (_, row) in self.rows.iter_mut().filter(|(id, _)| id.pid == pid) {
            row.ended_ns.get_or_insert(now_ns);
        }
    }

    /// Sums up processes that ended before a time; calls from before that time no longer wait.
    pub(crate) fn forget_ended(&mut self, before_ns: u64) {
        let is_old = |row: &Row| row.ended_ns.is_some_and(|ended_ns| ended_ns < before_ns);
        for (_, row) in self.rows.extract_if(|_, row| is_old(row)) {
            self.forgotten.add(row.totals);
            self.forgotten_count += 1;
        }
    }
}

/// The table for a terminal: most launches first, ended processes last.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |_| None)
    }
}

impl Machine {
    /// The table, with the pods of processes as `pod` names them.
    pub fn table(&self, pod: impl Fn(u32) -> Option<String>) -> String {
        let mut table = String::new();
        self.write(&mut table, pod).expect("writing to a string does not fail");
        table
    }

    fn write(&self, f: &mut impl fmt::Write, pod: impl Fn(u32) -> Option<String>) -> fmt::Result {
        let (ended, mut running): (Vec<_>, Vec<_>) =
            self.rows.iter().partition(|(_, row)| row.ended_ns.is_some());
        running
            .sort_by_key(|(id, row)| Reverse((row.totals.launches, row.totals.other_calls, Reverse(id.pid))));
        let mut of_ended = self.forgotten;
        for (_, row) in &ended {
            of_ended.add(row.totals);
        }
        let ended_count = self.forgotten_count + ended.len() as u64;

        let header = ["pid", "process", "launches", "total", "other calls", "total"];
        let name = |id: &ProcessId, row: &Row| match pod(id.pid) {
            Some(pod) => format!("{} ({pod})", row.name),
            None => row.name.clone(),
        };
        let rows = running.into_iter().map(|(id, row)| row.totals.cells(id.pid.to_string(), name(id, row)));
        let last = (ended_count > 0)
            .then(|| of_ended.cells("-".to_owned(), format!("{ended_count} that have ended")));
        write_table(f, header, rows.chain(last), 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;

    fn id(pid: u32, start_ns: u64) -> ProcessId {
        ProcessId { pid, start_ns }
    }

    fn row(name: &str) -> Row {
        Row::new(name, None)
    }

    #[test]
    fn processes_come_and_go() {
        let mut machine = Machine::default();
        let launch = call("hipLaunchKernel");
        for (pid, name, calls) in [(7, "train", 3), (8, "serve", 5), (9, "short", 1), (10, "short", 1)] {
            for _ in 0..calls {
                machine.add(id(pid, 1), &launch, || row(name));
            }
        }
        machine.add(id(7, 1), &call("hipMemcpy"), || unreachable!("the name is known"));
        machine.ended(9, 100);
        machine.ended(10, 200);
        machine.ended(11, 200);
        machine.forget_ended(150);
        // One call had to wait, and the id was reused for another row.
        machine.add(id(10, 1), &launch, || unreachable!("the name is known"));
        machine.ended(10, 300);
        machine.add(id(12, 1), &launch, || Row::new("all waited", Some(200)));
        machine.add(id(9, 250), &launch, || row("next"));
        let table = machine.to_string();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(lines[1][..3], ["8", "serve", "5"]);
        assert_eq!(lines[2][..3], ["7", "train", "3"]);
        assert_eq!(lines[2][4], "1");
        assert_eq!(lines[3][..3], ["9", "next", "1"]);
        assert_eq!(lines[4][..3], ["-", "3 that have ended", "4"]);
        assert_eq!(lines.len(), 5);
        machine.forget_ended(u64::MAX);
        assert_eq!(machine.to_string(), table);
        let named = machine.table(|pid| (pid == 8).then(|| "team/serve-0/main".to_owned()));
        assert!(named.contains("serve (team/serve-0/main)") && named.contains("train  "), "{named}");
    }
}
