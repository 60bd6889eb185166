//! What a recording of a program has, by `xsched-ctl report`.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::{matrix::Cell, summary::Summary};

/// The part of the report that is compared.
#[derive(Debug, Deserialize)]
pub(super) struct Recording {
    launches: u64,
    lost: u64,
    counters: BTreeMap<String, i64>,
    by: BTreeMap<String, Vec<Group>>,
}

/// Calls with something in common.
#[derive(Debug, Deserialize)]
struct Group {
    name: String,
    calls: u64,
}

impl Recording {
    pub(super) fn read(xsched_ctl: &Path, recording: &Path) -> Result<Self> {
        let mut report = Command::new(xsched_ctl);
        report.args(["report", "--json"]).arg(recording).stderr(Stdio::inherit());
        let output = report.output().context("failed to start xsched-ctl report")?;
        ensure!(output.status.success(), "xsched-ctl report ended with {}", output.status);
        serde_json::from_slice(&output.stdout).context("failed to read the report")
    }

    /// Whether nothing is missing: every launch that the shim counted in another run of the program, each with the library that
    /// called it and with its whole chain.
    pub(super) fn judged(&self, counted: Option<&Summary>) -> Cell {
        let recorded =
            |function: &str| self.group("api").find(|group| group.name == function).map_or(0, |g| g.calls);
        for (function, count) in counted.map(Summary::launches).unwrap_or_default() {
            if recorded(function) != count {
                return Cell::Worse(format!("{} calls of {function} instead of {count}", recorded(function)));
            }
        }
        if let Some((what, count)) = self.counters.iter().find(|(_, count)| **count > 0) {
            return Cell::Worse(format!("{count} {what}"));
        }
        if self.lost > 0 {
            return Cell::Worse(format!("{} lost", self.lost));
        }
        let unknown = self.group("library").find(|group| group.name.starts_with('['));
        if let Some(group) = unknown {
            return Cell::Worse(format!("{} calls from {}", group.calls, group.name));
        }
        Cell::Same(format!("{} launches, {} libraries", self.launches, self.group("library").count()))
    }

    /// Names of the libraries that called.
    pub(super) fn libraries(&self) -> String {
        self.group("library").map(|group| group.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn group(&self, dimension: &str) -> impl Iterator<Item = &Group> {
        self.by.get(dimension).into_iter().flatten()
    }
}
