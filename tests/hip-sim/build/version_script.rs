//! Linker version scripts: the symbols that library N exports, each with its node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::exports::Export;

/// The script of one library.
pub(crate) struct VersionScript<'a> {
    nodes: BTreeMap<(u32, u32), BTreeSet<&'a str>>,
}

impl<'a> VersionScript<'a> {
    /// For the library of one major: every export of a release up to that major.
    pub(crate) fn new(exports: &'a [Export], major: u32) -> Self {
        let mut nodes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for export in exports.iter().filter(|e| e.since_major <= major) {
            nodes.entry(export.version).or_default().insert(export.symbol.as_str());
        }
        Self { nodes }
    }

    /// The newest release whose functions the library has.
    pub(crate) fn newest(&self) -> (u32, u32) {
        *self.nodes.keys().next_back().expect("every library has the functions of 4.2")
    }
}

impl fmt::Display for VersionScript<'_> {
    /// Nodes from old to new, each inheriting from the previous one, as in the genuine library. `HIP_SIM` is
    /// separate: it holds the simulator's own functions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parent: Option<(u32, u32)> = None;
        for ((major, minor), symbols) in &self.nodes {
            writeln!(f, "hip_{major}.{minor} {{\nglobal:")?;
            for symbol in symbols {
                writeln!(f, "    {symbol};")?;
            }
            match parent {
                None => writeln!(f, "local:\n    *;\n}};\n")?,
                Some((major, minor)) => writeln!(f, "}} hip_{major}.{minor};\n")?,
            }
            parent = Some((*major, *minor));
        }
        writeln!(f, "HIP_SIM {{\nglobal:\n    hip_sim_kernel_launches;\n    hip_sim_missing_twins;")?;
        writeln!(f, "    hip_sim_unsupported_calls;\n    hip_sim_reset_counters;")?;
        writeln!(f, "    hip_sim_registered_instances;\n}};")
    }
}
