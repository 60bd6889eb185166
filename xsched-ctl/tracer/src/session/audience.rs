//! Which processes are recorded, as user space decides it.

use std::collections::HashSet;
use std::num::NonZeroU32;

use xsched_abi::Scope;
use xsched_bpf::namespace::PidNamespace;
use xsched_symbols::{PerfEvent, PerfEventKind};

use crate::bpf::Maps;

/// What to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Every process that uses HIP.
    Everybody,
    /// One process that runs already.
    Process(NonZeroU32),
    /// The children of this process, and theirs.
    Children,
}

/// The targets, and how they are recognized.
pub(super) struct Audience {
    targets: Targets,
    /// The children and their descendants, where the programs cannot follow them: for a fork they see ids of the
    /// initial pid namespace only. The side-band shows ids of ours.
    descendants: Option<HashSet<u32>>,
}

impl Audience {
    pub(super) fn new(targets: Targets, namespace: PidNamespace) -> Self {
        let is_nested = namespace != PidNamespace::Initial;
        let descendants = (is_nested && targets == Targets::Children).then(HashSet::new);
        Self { targets, descendants }
    }

    /// Which processes the programs report.
    pub(super) fn scope(&self) -> Scope {
        match self.targets {
            Targets::Everybody => Scope::Everybody,
            Targets::Process(_) => Scope::Listed,
            Targets::Children if self.descendants.is_some() => Scope::Selected,
            Targets::Children => Scope::ListedAndChildren,
        }
    }

    /// Whether a process is recorded. The programs keep the list of children, or else this does.
    pub(super) fn includes(&self, pid: u32, maps: &Maps) -> bool {
        match self.targets {
            Targets::Everybody => true,
            Targets::Process(target) => pid == target.get(),
            Targets::Children => {
                self.descendants.as_ref().map_or_else(|| maps.watches(pid), |known| known.contains(&pid))
            }
        }
    }

    /// Whether a process's calls are or may have been recorded: ended children cannot be told from other processes.
    pub(super) fn asks_for(&self, pid: u32) -> bool {
        match self.targets {
            Targets::Process(target) => pid == target.get(),
            Targets::Everybody | Targets::Children => true,
        }
    }

    /// Whether records must be filtered by process: the programs report more than was requested.
    pub(super) fn selects(&self) -> bool {
        self.descendants.is_some()
    }

    /// Notes a fork. Returns whether an event must be handled: reading an unknown process is expensive.
    pub(super) fn concerns(&mut self, event: &PerfEvent, maps: &Maps) -> bool {
        /// Ids of processes without one in our namespace, and of ended ones.
        const NO_PROCESS: [u32; 2] = [0, u32::MAX];

        if let PerfEventKind::Lost { .. } = event.kind {
            return true;
        }
        if let (Some(descendants), PerfEventKind::Forked { parent, .. }) =
            (&mut self.descendants, &event.kind)
            && (*parent == std::process::id() || descendants.contains(parent))
        {
            descendants.insert(event.pid);
        }
        !NO_PROCESS.contains(&event.pid) && self.includes(event.pid, maps)
    }

    /// The children and their descendants, where they are kept here.
    pub(super) fn descendants(&self) -> impl Iterator<Item = u32> {
        self.descendants.iter().flatten().copied()
    }

    /// A process has ended, and all its events have been handled.
    pub(super) fn ended(&mut self, pid: u32) {
        if let Some(descendants) = &mut self.descendants {
            descendants.remove(&pid);
        }
    }
}
