//! How many kernels a graph launch starts: counted while the process builds or captures the graph.
//!
//! A count is right or it is not given. It is not given for graphs that were there before recording began, for those of
//! which something may have been lost or left out, and for those with nodes whose own count is not known.

mod process;

use std::collections::HashMap;

use xsched_abi::{Call, Probe};

use process::ProcessGraphs;

/// What a graph consists of, those that it contains included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// Kernel nodes.
    pub(crate) kernels: u32,
    /// All nodes, but not those that stand for a contained graph.
    pub(crate) all: u32,
}

impl std::ops::Add for Nodes {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { kernels: self.kernels + more.kernels, all: self.all + more.all }
    }
}

/// The graphs of all processes.
#[derive(Default)]
pub(crate) struct Graphs {
    processes: HashMap<u32, ProcessGraphs>,
    /// Calls may be missing, so that nothing is to be learnt.
    is_incomplete: bool,
}

impl Graphs {
    /// Takes note of a call that has returned. For the launch of a graph: what it starts, if that is known.
    pub(crate) fn note(&mut self, probe: &Probe, call: &Call) -> Option<Nodes> {
        // Most processes have no graphs, and a graph begins with a call that is about graphs.
        let is_about_graphs = probe.category == xsched_abi::Category::Graph;
        if self.is_incomplete || call.ret as u32 != 0 {
            return None;
        }
        if is_about_graphs {
            self.processes.entry(call.tgid).or_default().note(probe, call)
        } else {
            self.processes.get_mut(&call.tgid)?.note(probe, call)
        }
    }

    /// Calls may be missing from here on, or are not any more. What is known is forgotten: a call that is missing may
    /// have changed it.
    pub(crate) fn set_incomplete(&mut self, is_incomplete: bool) {
        self.processes.clear();
        self.is_incomplete = is_incomplete;
    }

    /// Whether calls may be missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// A process has ended, runs another program, or is new.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

#[cfg(test)]
mod tests;
