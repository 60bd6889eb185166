//! Where tracepoints are to be found.

use std::path::Path;

/// Where tracefs is mounted with all of these tracepoints, such as `task/task_newtask`. In containers it usually is not.
pub fn tracefs_with(tracepoints: &[&str]) -> Option<&'static str> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].into_iter().find(|path| {
        tracepoints
            .iter()
            .all(|tracepoint| Path::new(path).join("events").join(tracepoint).join("id").exists())
    })
}
