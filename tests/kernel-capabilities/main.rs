//! What xsched-ctl can do under the running kernel: `cargo xtask test --kernels` runs this program in virtual machines.
//!
//! Prints one JSON object, which `xtask/src/kernels/capabilities.rs` reads, and judges nothing. What fails is named in it.

mod recorded;
mod scheduled;

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use xsched_tests::tracer::{Outcome, run, xsched_ctl};

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("usage: kernel-capabilities FILE");
        return ExitCode::from(2);
    };
    let capabilities = json!({
        "release": rustix::system::uname().release().to_string_lossy(),
        "doctor": doctor(),
        "recorded": recorded::try_it(),
        "scheduled": scheduled::try_it(),
    });
    match std::fs::write(Path::new(&file), capabilities.to_string()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}

fn doctor() -> Value {
    let Outcome { stdout, stderr, .. } = run(&mut xsched_ctl(["doctor", "--json"]));
    serde_json::from_str(&stdout).unwrap_or_else(|error| json!({ "error": format!("{error}: {stderr}") }))
}
