//! What the end-to-end tests, the benchmarks and the demo run besides this workspace's own programs.
//!
//! ```text
//! <target>/hip-sim/{5,6,7}/libamdhip64.so.N, libamdhip64.so -> libamdhip64.so.N    the simulated runtime
//! <target>/apps/{vector_add, two_libraries, .., lib*.so}                           programs and libraries on top
//! <target>/apps/obj/                                                               what they are linked from
//! <target>/differential/{differential-*, ..}                                       the client of differential tests
//! <target>/conformance/{conformance-*, modules/, libconformance_twins.so}          the conformance suite
//! ```

mod apps;
mod conformance;
mod differential;
mod hip_sim;
mod static_library;
mod step;

use anyhow::Result;

pub(crate) use self::conformance::Suite;
use crate::workspace::Workspace;

/// Brings everything up to date; does next to nothing when it already is.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    hip_sim::build(&workspace.root, &workspace.target_dir)?;
    apps::build(&workspace.root, &workspace.target_dir)
}

/// Brings the client of the differential tests up to date, after all others.
pub(crate) fn build_differential(workspace: &Workspace) -> Result<()> {
    differential::build(&workspace.root, &workspace.target_dir)
}
