//! A recording of calls through seven libraries without frame pointers, each chain compared with that of the compiler's unwinder.

use serde_json::{Value, json};
use xsched_tests::artifacts::app;
use xsched_tests::tracer::{run, xsched_ctl};
use xsched_tests::witness::{common, traced_chains, witnessed_chains};

/// The program once more, after others: unwind tables are built beside the recording, which takes a minute on an emulated processor. Calls
/// wait for 15 seconds.
const SCRIPT: &str = r#"for round in 1 2 3; do "$0" 12 >/dev/null; sleep 20; done; exec "$0" "$1""#;

/// Calls of the last program, and of those before.
const CALLS: u64 = 240;
const CALLS_BEFORE: u64 = 3 * 12;

/// What was recorded of the last program: calls, and those with whole chains.
pub(crate) fn try_it() -> Value {
    let tried = attempt();
    let is_final = tried["error"].is_string() || tried["whole"] == CALLS;
    // The second time, the tables are there.
    if is_final { tried } else { attempt() }
}

fn attempt() -> Value {
    let folder = std::env::temp_dir().join("recorded");
    if let Err(error) = std::fs::create_dir_all(&folder) {
        return json!({ "error": error.to_string() });
    }
    let trace = folder.join("run.perfetto");
    let mut command = xsched_ctl(["trace", "--ring-size", "8M", "--chain-frames", "address", "-o"]);
    command.arg(&trace).args(["--", "sh", "-c", SCRIPT]).arg(app("deep_chain")).arg(CALLS.to_string());
    let outcome = run(command.env("XSCHED_CTL_CACHE", folder.join("tables")).env("HIP_SIM_NULL", "1"));
    if outcome.code != 0 {
        return json!({ "error": outcome.stderr, "code": outcome.code });
    }
    let witnessed = witnessed_chains(&outcome.stdout);
    match traced_chains(&trace) {
        Ok((traced, incomplete)) => json!({
            "made": CALLS,
            "calls": (traced.values().sum::<u64>() + incomplete).saturating_sub(CALLS_BEFORE),
            "whole": common(&traced, &witnessed),
            "said": outcome.stderr,
        }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
