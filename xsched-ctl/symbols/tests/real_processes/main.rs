//! Lookups in real processes that load and close libraries, fork, execute other programs, end, and delete their files.
//!
//! Each test is named after the case that it covers. All build C programs, and most watch every process.

mod files;
mod foreign_roots;
mod kinds;
mod lives;
mod losses;
mod offsets;
mod subject;

use std::process::ExitCode;

fn main() -> ExitCode {
    xsched_harness::main()
}
