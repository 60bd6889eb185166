//! The minimal client of the field kit, linked with libamdhip64 by the crate `hip-runtime-sys`.
//!
//!     HIP_PATH=/opt/rocm cargo run -p xsched-field --features hip-runtime-sys --example linked_client -- steps wait=false
//!
//! The kit itself looks HIP up at run time. Compared with this program, that shows whether an interposed call depends on how a
//! program reaches the runtime.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    ExitCode::from(xsched_field::client(&words))
}
