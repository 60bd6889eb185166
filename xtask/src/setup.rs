//! `cargo xtask setup`: gets everything that the other verbs need, and says clearly what it could not get.
//!
//! The list of what is needed is [`requirements`]; how missing things are fetched, and what is said where that is
//! impossible, is [`plan`]. A second run finds everything met and does nothing.

mod bpf_linker;
mod debian;
mod kernel;
mod machine;
mod plan;
mod requirements;

use std::time::Instant;

use anyhow::{Result, bail};

use self::machine::ThisMachine;
pub(crate) use self::requirements::Need;
use crate::workspace::Workspace;

/// The verb: all needs.
pub(crate) fn everything(workspace: &Workspace) -> Result<()> {
    let started = Instant::now();
    ensure(workspace, &Need::ALL)?;
    eprintln!("setup: everything is there ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}

/// What a verb calls before its own work; silent when everything is there already.
pub(crate) fn ensure(workspace: &Workspace, needs: &[Need]) -> Result<()> {
    let requirements: Vec<_> = requirements::all().into_iter().filter(|r| needs.contains(&r.need)).collect();
    let unmet = plan::fulfil(&ThisMachine { root: &workspace.root }, &requirements);
    if unmet.is_empty() {
        return Ok(());
    }
    for missing in &unmet {
        eprintln!("{missing}");
    }
    let names: Vec<_> = unmet.iter().map(|missing| missing.name).collect();
    bail!("{} of {} requirements are not met: {}", unmet.len(), requirements.len(), names.join(", "));
}

/// Like [`ensure`], for things whose absence the caller survives: they are said, not returned.
pub(crate) fn prefer(workspace: &Workspace, needs: &[Need]) {
    if let Err(error) = ensure(workspace, needs) {
        eprintln!("going on: {error}");
    }
}
