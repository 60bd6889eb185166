//! `cargo xtask conformance`: the conformance suite alone, on the simulated runtimes or on a machine's own ROCm.
//!
//! `cargo xtask test` runs the simulated ones too, one test per case.

mod exports;

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    artifacts::{self, Suite},
    clients, command,
    setup::{self, Need},
    workspace::Workspace,
};

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run on the ROCm installed there and a real device, not on the simulated runtimes
    #[arg(long, value_name = "FOLDER")]
    rocm: Option<PathBuf>,
    /// Compare what its runtime exports with the simulated runtime and the shim instead; needs no device
    #[arg(long, requires = "rocm")]
    exports: bool,
    /// Processor to compile for, as `rocm_agent_enumerator` names it
    #[arg(long, default_value = "gfx942")]
    arch: String,
}

/// The verb: one line per case, an error if any failed.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if let (Some(rocm), true) = (&args.rocm, args.exports) {
        return exports::run(workspace, rocm);
    }
    setup::ensure(workspace, &[Need::HipPrograms])?;
    let suite = if let Some(rocm) = &args.rocm {
        Suite::installed(workspace, rocm, &args.arch)
    } else {
        clients::fetch(workspace)?;
        artifacts::build(workspace)?;
        Suite::simulated(workspace)
    };
    suite.build()?;
    command::all(suite.programs().into_iter().map(|program| {
        let mut command = command::command(&program);
        // A real runtime ignores these variables. Some cases need two devices.
        command::run(command.env("HIP_SIM_TWINS", suite.twins()).env("HIP_SIM_DEVICES", "2"))
    }))
}
