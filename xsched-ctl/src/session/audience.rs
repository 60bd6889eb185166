//! Who is recorded, as user space sees it.

use std::collections::HashSet;
use std::num::NonZeroU32;

use xsched_abi::Scope;
use xsched_symbols::{PerfEvent, PerfEventKind};

use crate::bpf::Maps;
use crate::namespace::PidNamespace;

/// Whom to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    /// Every process that uses HIP.
    Everybody,
    /// One process that runs already.
    Process(NonZeroU32),
    /// The children of this process, and theirs.
    Children,
}

/// The targets and how they are told from others.
pub(super) struct Audience {
    targets: Targets,
    /// The children, and theirs, where the programs cannot follow them: a fork tells them ids of the initial pid
    /// namespace only. The side-band tells ids of ours.
    descendants: Option<HashSet<u32>>,
}

impl Audience {
    pub(super) fn new(targets: Targets, namespace: PidNamespace) -> Self {
        let is_nested = namespace != PidNamespace::Initial;
        let descendants = (is_nested && targets == Targets::Children).then(HashSet::new);
        Self { targets, descendants }
    }

    /// Whom the programs report.
    pub(super) fn scope(&self) -> Scope {
        match self.targets {
            Targets::Everybody => Scope::Everybody,
            Targets::Process(_) => Scope::Listed,
            Targets::Children if self.descendants.is_some() => Scope::Selected,
            Targets::Children => Scope::ListedAndChildren,
        }
    }

    /// Whether a process is recorded. Children are known to the programs, which have listed them, or else to us.
    pub(super) fn includes(&self, pid: u32, maps: &Maps) -> bool {
        match self.targets {
            Targets::Everybody => true,
            Targets::Process(target) => pid == target.get(),
            Targets::Children => {
                self.descendants.as_ref().map_or_else(|| maps.watches(pid), |known| known.contains(&pid))
            }
        }
    }

    /// Whether a process is, or may have been, one whose calls are recorded: children that have ended are not told from
    /// others.
    pub(super) fn asks_for(&self, pid: u32) -> bool {
        match self.targets {
            Targets::Process(target) => pid == target.get(),
            Targets::Everybody | Targets::Children => true,
        }
    }

    /// Whether records must be looked at before they are taken: the programs report more than was asked for.
    pub(super) fn selects(&self) -> bool {
        self.descendants.is_some()
    }

    /// Takes note of a fork, and whether an event is to be looked at: reading an unknown process costs.
    pub(super) fn concerns(&mut self, event: &PerfEvent, maps: &Maps) -> bool {
        /// Ids of processes that have none in our namespace, and of those that are gone.
        const NOBODY: [u32; 2] = [0, u32::MAX];

        if let PerfEventKind::Lost { .. } = event.kind {
            return true;
        }
        if let (Some(descendants), PerfEventKind::Forked { parent, .. }) =
            (&mut self.descendants, &event.kind)
            && (*parent == std::process::id() || descendants.contains(parent))
        {
            descendants.insert(event.pid);
        }
        !NOBODY.contains(&event.pid) && self.includes(event.pid, maps)
    }

    /// A process has ended, and everything that it did has been looked at.
    pub(super) fn ended(&mut self, pid: u32) {
        if let Some(descendants) = &mut self.descendants {
            descendants.remove(&pid);
        }
    }
}
