//! What the shim says at exit (`shim/src/summary.rs`), summed over the processes of a program.

use std::{collections::BTreeMap, fs, path::Path};

/// Counts by section and line.
#[derive(Debug, Default)]
pub(super) struct Summary(BTreeMap<String, BTreeMap<String, u64>>);

impl Summary {
    /// Nothing if the shim has written nothing.
    pub(super) fn read(log: &Path) -> Self {
        Self::parse(&fs::read_to_string(log).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut summary = Self::default();
        let mut section = String::new();
        for line in text.lines() {
            let (depth, line) = (line.len() - line.trim_start().len(), line.trim());
            if depth == 2 {
                line.clone_into(&mut section);
            } else if let Some((count, what)) = line.split_once("  ").filter(|_| depth > 2)
                && let Ok(count) = count.parse::<u64>()
            {
                *summary.0.entry(section.clone()).or_default().entry(what.to_owned()).or_default() += count;
            }
        }
        summary
    }

    /// Whether a process with the shim has made HIP calls.
    pub(super) fn is_there(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn count(&self, section: &str, what: &str) -> u64 {
        self.0.get(section).and_then(|lines| lines.get(what)).copied().unwrap_or(0)
    }

    /// Calls of functions that launch kernels, by function.
    pub(super) fn launches(&self) -> BTreeMap<&str, u64> {
        let calls = self.0.get("calls").into_iter().flatten();
        calls
            .filter_map(|(call, count)| {
                let (function, described) = call.split_once(' ')?;
                described.contains("Launch").then_some((function, *count))
            })
            .collect()
    }

    /// What went wrong, with counts.
    pub(super) fn trouble(&self) -> Vec<String> {
        let trouble = self.0.get("trouble").into_iter().flatten();
        trouble.filter(|(_, count)| **count > 0).map(|(what, count)| format!("{count} {what}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_TWO: &str = "xsched-shim: process 1 (a) made 12 calls to 2 HIP functions
  calls
               8  hipLaunchKernel (Launch, Deferrable)
               4  hipMalloc (Memory, Passes)
  passed on because
               8  deferred
  trouble
               0  none
xsched-shim: process 2 (b) made 1 calls to 1 HIP functions
  calls
               1  hipLaunchKernel (Launch, Deferrable)
  trouble
               3  call sites without room
";

    #[test]
    fn counts_of_all_processes_are_summed() {
        let summary = Summary::parse(OF_TWO);
        assert_eq!(summary.launches(), BTreeMap::from([("hipLaunchKernel", 9)]));
        assert_eq!(summary.count("passed on because", "deferred"), 8);
        assert_eq!(summary.trouble(), ["3 call sites without room"]);
        assert!(!Summary::parse("").is_there());
    }
}
