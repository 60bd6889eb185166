//! The C programs under `tests/real_processes`: building them, and exchanging commands and answers with them.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xsched_harness::Need;
use xsched_symbols::{Change, Location, NameError, Processes, Sideband, SidebandError, Symbol};

/// Builds `source` into `name`, once for each test that needs it.
pub(crate) fn build(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_processes");
    let output = folder.join(name);
    let mut command = Command::new("cc");
    command.current_dir(&sources).args(flags).arg(source).arg("-o").arg(&output);
    let done = command.output().expect("a C compiler is installed");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    output
}

/// A separate folder for one test.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("xsched-symbols-").tempdir().expect("temporary folder")
}

/// The subject program, which all tests share. It is in cargo's folder for temporary files of tests, because no test is known
/// to be the last one that could delete it. The folder's name changes with the source. Older folders are kept, because other
/// tests may run their programs.
pub(crate) fn subject() -> &'static Path {
    static SUBJECT: OnceLock<PathBuf> = OnceLock::new();
    SUBJECT.get_or_init(|| {
        const FLAGS: &[&str] = &["-O1", "-pie", "-fPIE", "-pthread", "-ldl"];
        let mut hasher = DefaultHasher::new();
        (include_str!("subject.c"), FLAGS).hash(&mut hasher);
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let home = shared.join(format!("subject-{:016x}", hasher.finish()));
        let program = home.join("subject");
        if !program.exists() {
            let folder = tempfile::tempdir_in(shared).expect("cargo makes that folder");
            build(folder.path(), "subject", "subject.c", FLAGS);
            // It fails if another test was quicker; otherwise there is nothing left to be deleted.
            let _ = fs::rename(folder.path(), home);
            assert!(program.exists(), "{}", program.display());
        }
        program
    })
}

/// A library with `entry` as its only function.
pub(crate) fn library(folder: &Path, name: &str, entry: &str) -> PathBuf {
    build(folder, name, "library.c", &["-O1", "-shared", "-fPIC", &format!("-DENTRY={entry}")])
}

/// A running subject.
pub(crate) struct Subject {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Subject {
    pub(crate) fn start(program: &Path) -> Self {
        Self::run(&mut Command::new(program))
    }

    pub(crate) fn run(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the subject");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a piped stdout"));
        Self { child, stdin, stdout }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("read from the subject");
        line.trim_end().to_owned()
    }

    pub(crate) fn send(&mut self, command: &str) {
        let stdin = self.stdin.as_mut().expect("open until the end");
        writeln!(stdin, "{command}").expect("write to the subject");
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.line()
    }

    pub(crate) fn must(&mut self, command: &str) {
        assert_eq!(self.ask(command), "ok", "{command}");
    }

    pub(crate) fn address(&mut self, command: &str) -> u64 {
        hexadecimal(&self.ask(command))
    }

    /// The boot time at which the subject got the command, nanoseconds.
    pub(crate) fn time_ns(&mut self) -> u64 {
        self.ask("time").parse().expect("nanoseconds")
    }

    /// Closes the subject's input, and waits for its end.
    pub(crate) fn end(&mut self) {
        self.stdin = None;
        self.child.wait().expect("wait for the subject");
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The subject must end also after a failed assertion.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("no address: {text}"))
}

/// This user may watch every process.
pub(crate) static WATCHING: Need = Need {
    name: "watching processes",
    missing: || match Sideband::open() {
        Err(SidebandError::NotPermitted) => Some(SidebandError::NotPermitted.to_string()),
        // Any other error makes each test fail.
        Ok(_) | Err(_) => None,
    },
};

/// A side-band, and the processes from its events.
pub(crate) struct Watch {
    pub(crate) sideband: Sideband,
    pub(crate) processes: Processes,
    pub(crate) changes: Vec<Change>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let sideband = Sideband::open().expect("the need was probed");
        let mut processes = Processes::new();
        assert!(processes.scan_running() > 0);
        Self { sideband, processes, changes: Vec::new() }
    }

    pub(crate) fn catch_up(&mut self) {
        let Self { sideband, processes, changes } = self;
        sideband.drain(|event| changes.extend(processes.apply(&event)));
    }

    /// Applies events until `wanted` has been seen: an event from another CPU may arrive late.
    pub(crate) fn catch_up_until(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            self.catch_up();
            if wanted(self) {
                return;
            }
            assert!(Instant::now() < deadline, "{what} was not reported");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn has_exited(&self, pid: u32) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Exited { pid: ended } if *ended == pid))
    }

    pub(crate) fn locate(&mut self, pid: u32, address: u64, time_ns: u64) -> Location {
        let located = self.processes.locate(pid, address, time_ns);
        located.unwrap_or_else(|| panic!("{address:#x} of {pid} at {time_ns} was not found"))
    }

    pub(crate) fn symbol(&mut self, pid: u32, address: u64, time_ns: u64) -> Result<Symbol, NameError> {
        let location = self.locate(pid, address, time_ns);
        self.processes.name(&location)
    }

    /// `name+offset in library`.
    pub(crate) fn describe(&mut self, pid: u32, address: u64, time_ns: u64) -> String {
        let location = self.locate(pid, address, time_ns);
        let library = location.mapping.library().into_owned();
        match self.processes.name(&location) {
            Ok(symbol) => format!("{}+{} in {library}", symbol.mangled, symbol.offset),
            Err(why) => format!("{why} in {library}"),
        }
    }
}

pub(crate) fn replace(old: &Path, new: &Path) {
    fs::remove_file(old).expect("remove the old file");
    fs::rename(new, old).expect("replace the old file");
}
