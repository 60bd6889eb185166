//! Where tracepoints are to be found.

use std::path::Path;

/// The mount point of tracefs, if it has all of these tracepoints, such as `task/task_newtask`. Containers usually have
/// none.
pub fn tracefs_with(tracepoints: &[&str]) -> Option<&'static str> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].into_iter().find(|path| {
        tracepoints
            .iter()
            .all(|tracepoint| Path::new(path).join("events").join(tracepoint).join("id").exists())
    })
}
