//! What the device did, for tests: `KFD_SIM_LOG` names a file to which each process adds lines.
//!
//! `dispatch PID QUEUE WAVES INSTRUCTIONS` is a kernel that ended. `packet QUEUE INDEX HEADER [SIGNALS] SIGNAL` is a packet that was
//! looked at for the first time: what the runtime wrote. Other lines are for people.

use std::fmt::Arguments;
use std::fs::File;
use std::io::Write as _;
use std::sync::OnceLock;

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = std::env::var_os("KFD_SIM_LOG")?;
        File::options().create(true).append(true).open(path).ok()
    })
    .as_ref()
}

/// Adds a line, if there is a log.
pub(crate) fn line(text: Arguments<'_>) {
    if let Some(mut file) = file() {
        // The log is for tests, which miss its lines.
        let _ = file.write_all(format!("{text}\n").as_bytes());
    }
}

/// Says what went wrong, on the error stream too.
pub(crate) fn complain(text: Arguments<'_>) {
    eprintln!("kfd-sim: {text}");
    line(format_args!("trouble {text}"));
}
