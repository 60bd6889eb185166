//! `cargo xtask bench NAME --against REV`: measures another commit's tree in the same run, and compares.
//!
//! Each tree builds and runs its own benchmark, so programs, shim, command and simulated runtime all belong to the commit
//! that is measured. The two take turns, so that the machine's drift meets both:
//!
//! ```text
//! turn      1        2        3
//! runs    A B      B A      A B        A: the working tree, B: REV (a git worktree in <target>/against/)
//! ```
//!
//! Rows belong together by metric, or by their position if one tree calls a metric by another name. A row is printed for
//! each such metric, under the name that it has in A: the median of A's values, the median of B's as its baseline,
//! the median of the ratios turn by turn, and their spread as noise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::row::{Row, Series};
use crate::{command, workspace::Workspace};

/// What a comparison reads of a benchmark's row.
#[derive(Deserialize)]
struct Measured {
    metric: String,
    value: f64,
    unit: String,
}

/// Runs the benchmark in both trees and hands each row of the comparison to `show`, as JSON.
pub(super) fn run(
    workspace: &Workspace,
    name: &str,
    words: &[String],
    revision: &str,
    turns: usize,
    mut show: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let other = checkout(workspace, revision)?;
    let mut order = Vec::new();
    let mut all = BTreeMap::new();
    for turn in 0..turns {
        let mut rows = [(&workspace.root, workspace.target_dir.clone()), (&other, other.join("target"))]
            .map(|(root, target)| (root.clone(), target, Vec::new()));
        let both = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in both {
            let (root, target, measured) = &mut rows[index];
            *measured = measure(root, target, name, words)?;
        }
        let [(_, _, ours), (_, _, theirs)] = rows;
        collect(&ours, &theirs, &mut order, &mut all);
    }
    for metric in &order {
        show(&Row::of(name, metric, &all[metric]).json()?)?;
    }
    Ok(())
}

/// A worktree of another commit below the target folder, kept for the next comparison.
fn checkout(workspace: &Workspace, revision: &str) -> Result<PathBuf> {
    let git = |arguments: &[&str]| -> Result<String> {
        let mut git = command::command("git");
        let output =
            git.current_dir(&workspace.root).args(arguments).output().context("failed to start git")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {}: {}", arguments.join(" "), stderr.trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--verify", "--short=12", &format!("{revision}^{{commit}}")])?;
    let folder = workspace.target_dir.join("against").join(&commit);
    if !folder.exists() {
        git(&["worktree", "prune"])?;
        git(&["worktree", "add", "--detach", &folder.to_string_lossy(), &commit])?;
    }
    Ok(folder)
}

/// The rows that the tree's own `cargo xtask bench` prints.
fn measure(root: &Path, target: &Path, name: &str, words: &[String]) -> Result<Vec<Measured>> {
    let mut bench = command::cargo(root);
    bench.env("CARGO_TARGET_DIR", target).args(["xtask", "bench", name, "--json"]).args(words);
    let lines = command::output(bench.env_remove("CARGO_MANIFEST_DIR"))
        .with_context(|| format!("failed to measure {}", root.display()))?;
    lines
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not a benchmark row: {line}")))
        .collect()
}

/// Appends one turn's values of the metrics that both trees have.
fn collect(
    ours: &[Measured],
    theirs: &[Measured],
    order: &mut Vec<String>,
    all: &mut BTreeMap<String, Series>,
) {
    for (position, row) in ours.iter().enumerate() {
        let is_renamed = |other: &&Measured| ours.iter().all(|row| row.metric != other.metric);
        let same_name = theirs.iter().find(|other| other.metric == row.metric);
        let other = same_name.or_else(|| theirs.get(position).filter(is_renamed));
        let Some(other) = other.filter(|other| other.unit == row.unit) else { continue };
        if !all.contains_key(&row.metric) {
            order.push(row.metric.clone());
        }
        let series = all.entry(row.metric.clone()).or_default();
        series.unit.clone_from(&row.unit);
        series.pairs.push([row.value, other.value]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(metric: &str, value: f64) -> Measured {
        Measured { metric: metric.to_owned(), value, unit: "ns".to_owned() }
    }

    #[test]
    fn metrics_of_both_trees_are_compared_turn_by_turn() {
        let (mut order, mut all) = (Vec::new(), BTreeMap::new());
        for (ours, theirs) in [(30.0, 20.0), (20.0, 20.0), (25.0, 20.0)] {
            let ours = [measured("launch", ours), measured("new here", 1.0)];
            collect(&ours, &[measured("gone", 2.0), measured("launch", theirs)], &mut order, &mut all);
        }
        assert_eq!(order, ["launch"]);
        let row = serde_json::from_str::<serde_json::Value>(
            &Row::of("shim", "launch", &all["launch"]).json().unwrap(),
        )
        .unwrap();
        assert_eq!(
            row,
            serde_json::json!({
                "bench": "shim", "metric": "launch", "value": 25.0, "unit": "ns", "baseline": 20.0,
                "ratio": 1.25, "goal": null, "met": null, "noise": 0.4,
            })
        );
    }

    #[test]
    fn a_renamed_metric_is_found_by_its_position() {
        let (mut order, mut all) = (Vec::new(), BTreeMap::new());
        let theirs = [measured("blocked", 4.0), measured("launch", 5.0)];
        collect(&[measured("waiting", 2.0), measured("launch", 1.0)], &theirs, &mut order, &mut all);
        assert_eq!(order, ["waiting", "launch"]);
        assert_eq!(all["waiting"].pairs, [[2.0, 4.0]]);
        assert_eq!(all["launch"].pairs, [[1.0, 5.0]]);
    }

    #[test]
    fn a_baseline_of_zero_has_no_ratio() {
        let (mut order, mut all) = (Vec::new(), BTreeMap::new());
        collect(&[measured("lost", 3.0)], &[measured("lost", 0.0)], &mut order, &mut all);
        let row = Row::of("rate", "lost", &all["lost"]).json().unwrap();
        assert!(row.contains(r#""value":3.0"#) && row.contains(r#""ratio":null"#), "{row}");
    }
}
