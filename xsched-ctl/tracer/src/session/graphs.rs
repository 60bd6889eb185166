//! How many kernels a graph launch starts, counted while the process builds or captures the graph.
//!
//! A count is either right or not given. It is not given for graphs from before the recording, for those with possibly
//! lost or filtered calls, and for those with nodes whose own count is unknown.

mod process;

use std::collections::HashMap;

use xsched_abi::{Call, Probe};

use crate::call::Nodes;
use process::ProcessGraphs;

#[derive(Default)]
pub(crate) struct Graphs {
    processes: HashMap<u32, ProcessGraphs>,
    /// Calls may be missing, so nothing can be counted.
    is_incomplete: bool,
}

impl Graphs {
    /// Notes a returned call. For the launch of a graph, returns what it starts, if known.
    pub(crate) fn note(&mut self, probe: &Probe, call: &Call) -> Option<Nodes> {
        // Most processes have no graphs, and the first call about a graph is in this category.
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

    /// Sets whether calls may be missing from here on. What is known is forgotten: a missing call may have changed it.
    pub(crate) fn set_incomplete(&mut self, is_incomplete: bool) {
        self.processes.clear();
        self.is_incomplete = is_incomplete;
    }

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
