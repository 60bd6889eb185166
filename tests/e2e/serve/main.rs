//! `xsched-ctl serve` and the commands that speak to it, with a stand-in for the shim.

use std::process::ExitCode;

mod commands;
mod directory;
mod files;
mod fixture;
mod hostile;
mod lives;
mod standing;

/// Nobody.
const USER: u32 = 65534;

fn main() -> ExitCode {
    xsched_harness::main()
}
