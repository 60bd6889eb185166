//! Where tracepoints are to be found.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use xsched_terminal::ExitCode;

/// Why tracepoints cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTracepoints {
    /// Its mount point is root's alone.
    #[error("{0} may not be read")]
    Unreadable(&'static str),
    /// As usual in containers.
    #[error("tracefs is not mounted here, at /sys/kernel/tracing")]
    NotMounted,
    /// The kernel has none for system calls, for example.
    #[error("tracefs at {0} has no such tracepoint")]
    Lacking(&'static str),
}

impl NoTracepoints {
    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Unreadable(_) => {
                "run it as root (`sudo xsched-ctl …`), or grant CAP_DAC_READ_SEARCH too: the folder is root's alone"
            }
            Self::NotMounted => "mount -t tracefs tracefs /sys/kernel/tracing",
            Self::Lacking(_) => "use a kernel with CONFIG_FTRACE_SYSCALLS; all distributions ship one",
        }
    }

    /// The exit code of a command that needs them.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Unreadable(_) => ExitCode::NotPermitted,
            Self::NotMounted | Self::Lacking(_) => ExitCode::Unavailable,
        }
    }
}

/// The mount point of tracefs, if it has all of these tracepoints, such as `task/task_newtask`.
pub fn tracefs_with(tracepoints: &[&str]) -> Result<&'static str, NoTracepoints> {
    let usual = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let tried = usual.map(|path| has(path, tracepoints).map(|()| path));
    // The first that says most about what is wrong.
    let rank = |tried: &Result<_, NoTracepoints>| match tried {
        Ok(_) => 0,
        Err(NoTracepoints::Unreadable(_)) => 1,
        Err(NoTracepoints::Lacking(_)) => 2,
        Err(NoTracepoints::NotMounted) => 3,
    };
    tried.into_iter().min_by_key(rank).unwrap_or(Err(NoTracepoints::NotMounted))
}

/// Other errors, such as a lack of descriptors, say nothing about tracefs.
fn has(path: &'static str, tracepoints: &[&str]) -> Result<(), NoTracepoints> {
    let events = Path::new(path).join("events");
    tracepoints.iter().try_for_each(|tracepoint| match File::open(events.join(tracepoint).join("id")) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(NoTracepoints::Unreadable(path)),
        Err(error) if error.kind() != ErrorKind::NotFound => Ok(()),
        Err(_) if events.exists() => Err(NoTracepoints::Lacking(path)),
        Err(_) => Err(NoTracepoints::NotMounted),
    })
}
