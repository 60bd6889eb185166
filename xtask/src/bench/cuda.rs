//! `cargo xtask bench cuda`: the tables of docs/cuda.md on this machine's NVIDIA GPU, by the scripts of `tests/bench/cuda`.
//!
//! They print tables, not rows: natively and with the shim in turn. `tests/bench/cuda/README.md` says what they need.

use std::fs;

use anyhow::{Context as _, Result};

use crate::{
    command, subject,
    workspace::{Profile, Workspace},
};

/// What a table is called that is a script of its own; the others are those of `tables.sh`.
const SCRIPTS: [&str; 4] = ["arrays", "contexts", "soak", "trace"];

/// Measures these tables, or all of `tables.sh`.
pub(super) fn run(workspace: &Workspace, tables: &[String]) -> Result<()> {
    subject::build_released(workspace)?;
    let scripts = workspace.root.join("tests/bench/cuda");
    let ctl = workspace.built(Profile::Release, "xsched-ctl");
    let built = ctl.parent().context("a built file is in a folder")?;
    let (own, shared) = split(tables);
    if !shared.is_empty() || own.is_empty() {
        let mut script = command::command(scripts.join("tables.sh"));
        if !shared.is_empty() {
            script.env("TABLES", shared.join(" "));
        }
        command::run(script.arg(built))?;
    }
    for name in own {
        let mut script = command::command(scripts.join(format!("{name}.sh")));
        if name == "trace" {
            let recordings = workspace.target_dir.join("cuda-recordings");
            fs::create_dir_all(&recordings)
                .with_context(|| format!("failed to create {}", recordings.display()))?;
            script.arg(&ctl).arg(recordings);
        } else {
            script.arg(built);
        }
        command::run(&mut script)?;
    }
    Ok(())
}

/// Tables with a script of their own, and the others.
fn split(tables: &[String]) -> (Vec<&str>, Vec<&str>) {
    tables.iter().map(String::as_str).partition(|table| SCRIPTS.contains(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_their_own_exist() {
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/bench/cuda");
        for name in SCRIPTS {
            assert!(fs::exists(format!("{scripts}/{name}.sh")).unwrap(), "{name}");
        }
        let asked = ["batch1", "soak"].map(str::to_owned);
        assert_eq!(split(&asked), (vec!["soak"], vec!["batch1"]));
    }
}
