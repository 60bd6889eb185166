//! What the session knows of each process besides its mappings, in one table: the entry of a process owns all of it.
//!
//! What is in a process's memory, such as the handles of kernels, is forgotten when its end takes effect, in order among its calls.
//! The entry stays for a while, since records may come late. Then it goes, with whatever these have put into it.
//!
//! Not here is what only waits: calls for their chains (`chainless`), for names (`unread`), processes for slow files (`slow`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use xsched_abi::{Call, Category, Probe};
use xsched_symbols::Change;

use super::graphs::Graphs;
use super::kernels::Kernels;
use crate::call::Nodes;
use crate::driver::StreamQueues;

/// The processes, by their ids.
#[derive(Default)]
pub(crate) struct Known {
    processes: HashMap<u32, Process>,
    /// Ended processes, and when their end was noticed.
    ended: VecDeque<(u32, u64)>,
    /// Calls may be missing, so what graphs start cannot be counted.
    graphs_are_incomplete: bool,
}

/// What is known of one process.
#[derive(Default)]
struct Process {
    /// Only a process that has made calls can have calls in progress.
    has_called: bool,
    /// It uses HIP or one of the driver's devices.
    uses_driver: bool,
    /// When its end was noticed.
    ended_ns: Option<u64>,
    memory: Memory,
}

/// What handles mean in a process's memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(super) kernels: Kernels,
    pub(super) graphs: Graphs,
    /// Names of kernels that symbols say, by handle. Emptied whenever its mappings change.
    pub(super) of_symbols: HashMap<u64, Arc<str>>,
    pub(super) queues: StreamQueues,
}

impl Known {
    /// What handles mean in a process's memory.
    pub(super) fn memory(&mut self, pid: u32) -> &mut Memory {
        &mut self.processes.entry(pid).or_default().memory
    }

    /// The same, if anything is known.
    pub(super) fn known_memory(&self, pid: u32) -> Option<&Memory> {
        self.processes.get(&pid).map(|process| &process.memory)
    }

    /// A process has made a call. Returns whether it is the first.
    pub(super) fn called(&mut self, pid: u32) -> bool {
        !std::mem::replace(&mut self.processes.entry(pid).or_default().has_called, true)
    }

    /// Whether a process has made calls, and goes on.
    pub(super) fn can_be_calling(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.has_called && process.ended_ns.is_none())
    }

    /// A process uses HIP or one of the driver's devices.
    pub(super) fn uses_driver(&mut self, pid: u32) {
        self.processes.entry(pid).or_default().uses_driver = true;
    }

    /// Whether any process that goes on does.
    pub(super) fn is_driver_used(&self) -> bool {
        self.processes.values().any(|process| process.uses_driver && process.ended_ns.is_none())
    }

    /// The processes whose end was not noticed.
    pub(super) fn present(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().filter(|(_, process)| process.ended_ns.is_none()).map(|(pid, _)| *pid)
    }

    /// A process has a child, which inherits its descriptors. What its memory means is told later: see [`Self::changed`].
    pub(super) fn forked(&mut self, parent: u32, child: u32) {
        let uses_driver = self.processes.get(&parent).is_some_and(|parent| parent.uses_driver);
        match self.processes.get_mut(&child) {
            // An earlier process had this id. Its calls may still wait for their names.
            Some(before) => {
                (before.has_called, before.uses_driver, before.ended_ns) = (false, uses_driver, None);
            }
            None if uses_driver => self.uses_driver(child),
            None => {}
        }
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, pid: u32, now_ns: u64) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.ended_ns = Some(now_ns);
        }
        self.ended.push_back((pid, now_ns));
    }

    /// Takes in a change that comes after everything that its process has called.
    pub(super) fn changed(&mut self, change: &Change) {
        match *change {
            Change::Mapped { pid, .. } | Change::Found { pid } => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.memory.of_symbols.clear();
                }
            }
            Change::Forked { pid, parent } => {
                self.replace_memory(pid);
                let inherited = self.known_memory(parent).map(|memory| memory.kernels.clone());
                if let Some(kernels) = inherited.filter(|kernels| !kernels.is_empty()) {
                    self.memory(pid).kernels = kernels;
                }
            }
            Change::Executed { pid } | Change::Exited { pid } => self.replace_memory(pid),
            Change::Renamed { .. } | Change::Lost { .. } => {}
        }
    }

    fn replace_memory(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.memory = Memory::default();
        }
    }

    /// Notes a returned call. For the launch of a graph, returns what it starts, if known.
    pub(super) fn graph_call(&mut self, probe: &Probe, call: &Call) -> Option<Nodes> {
        if self.graphs_are_incomplete || call.ret as u32 != 0 {
            return None;
        }
        // Most processes have no graphs, and the first call about a graph is in this category.
        if probe.category == Category::Graph {
            self.memory(call.tgid).graphs.note(probe, call)
        } else {
            self.processes.get_mut(&call.tgid)?.memory.graphs.note(probe, call)
        }
    }

    /// Sets whether calls may be missing from here on. What is known of graphs is forgotten: a missing call may have changed it.
    pub(super) fn set_graphs_incomplete(&mut self, are_incomplete: bool) {
        self.processes.values_mut().for_each(|process| process.memory.graphs = Graphs::default());
        self.graphs_are_incomplete = are_incomplete;
    }

    pub(super) fn graphs_are_incomplete(&self) -> bool {
        self.graphs_are_incomplete
    }

    /// Takes the next process whose end was noticed before a time, and forgets it.
    pub(super) fn forget_before(&mut self, before_ns: u64) -> Option<u32> {
        let (pid, _) = self.ended.pop_front_if(|(_, ended_ns)| *ended_ns < before_ns)?;
        // Another process may have its id by now.
        let is_over = |process: &Process| process.ended_ns.is_some_and(|ended_ns| ended_ns < before_ns);
        if self.processes.get(&pid).is_some_and(is_over) {
            self.processes.remove(&pid);
        }
        Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::Kernel;
    use super::*;

    fn kernel(name: &str) -> Kernel {
        Kernel { name: name.into(), source: 0 }
    }

    fn name(known: &Known, pid: u32) -> Option<&str> {
        known.known_memory(pid)?.kernels.get(0x10).map(|kernel| &*kernel.name)
    }

    #[test]
    fn nothing_is_kept_of_a_process_that_ended_a_while_ago() {
        let mut known = Known::default();
        assert!(known.called(1) && !known.called(1) && known.can_be_calling(1));
        known.uses_driver(1);
        known.memory(1).kernels.define(0x10, kernel("add"));
        known.memory(1).queues.insert(0x20, 3);
        known.ended(1, 7);
        assert!(!known.can_be_calling(1) && !known.is_driver_used() && known.present().next().is_none());
        assert_eq!(name(&known, 1), Some("add"), "calls from before may wait");
        known.changed(&Change::Exited { pid: 1 });
        assert_eq!(name(&known, 1), None);
        // Records that come late.
        assert!(!known.called(1), "it is the same process");
        known.memory(1).of_symbols.insert(0x10, "add".into());
        known.uses_driver(1);
        assert!(!known.is_driver_used());
        assert_eq!((known.forget_before(7), known.forget_before(8)), (None, Some(1)));
        assert!(known.processes.is_empty() && known.ended.is_empty());
    }

    #[test]
    fn a_process_that_only_uses_the_driver_is_looked_at_when_its_end_may_have_been_missed() {
        let mut known = Known::default();
        known.uses_driver(1);
        known.forked(1, 2);
        let mut present: Vec<_> = known.present().collect();
        present.sort_unstable();
        assert_eq!(present, [1, 2]);
        known.ended(1, 7);
        assert!(known.is_driver_used(), "its child has its descriptors");
        known.ended(2, 8);
        assert!(!known.is_driver_used());
    }

    #[test]
    fn a_process_that_gets_the_id_of_an_ended_one_is_another_one() {
        let mut known = Known::default();
        known.called(1);
        known.memory(1).kernels.define(0x10, kernel("add"));
        known.ended(1, 7);
        known.forked(9, 1);
        assert!(known.called(1));
        assert_eq!(name(&known, 1), Some("add"), "calls of the first may wait, and come before the fork");
        known.changed(&Change::Exited { pid: 1 });
        known.changed(&Change::Forked { pid: 1, parent: 9 });
        assert_eq!(name(&known, 1), None);
        assert_eq!(known.forget_before(8), Some(1));
        assert!(known.can_be_calling(1));
    }

    #[test]
    fn children_inherit_kernels_and_nothing_else() {
        let mut known = Known::default();
        known.called(1);
        known.memory(1).kernels.define(0x10, kernel("add"));
        known.memory(1).queues.insert(0x20, 3);
        known.changed(&Change::Forked { pid: 2, parent: 1 });
        assert_eq!(name(&known, 2), Some("add"));
        assert!(known.memory(2).queues.is_empty() && known.called(2));
        known.changed(&Change::Executed { pid: 1 });
        assert_eq!((name(&known, 1), name(&known, 2)), (None, Some("add")));
        known.changed(&Change::Forked { pid: 3, parent: 4 });
        assert_eq!(known.processes.len(), 2, "a process of which nothing is known has no entry");
    }
}
