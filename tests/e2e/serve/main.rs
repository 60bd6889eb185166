//! `xsched-ctl serve` and its client commands, with a stand-in for the shim.

use std::process::ExitCode;

mod capabilities;
mod commands;
mod directory;
mod files;
mod fixture;
mod hostile;
mod lives;
mod metrics;
mod pods;
mod priorities;
mod python;
mod top;

/// The user `nobody`.
const USER: u32 = 65534;

fn main() -> ExitCode {
    xsched_harness::main()
}
