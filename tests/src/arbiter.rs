//! Both sides of the arbiter without the shim: the function that BPF programs probe, and processes that obey commands.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use xsched_arbiter::ClaimName;

/// The same function as the shim's: it returns at once, and starts with a one-byte no-operation. The kernel emulates that
/// instruction. It replaces a five-byte no-operation by a call into a page that forked children do not have (Linux 6.18).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn xsched_arbiter_report(_operation: u64, _slot: u64, _argument: u64) {
    core::arch::naked_asm!("nop", "ret")
}

/// A process of `tests/arbiter-peer`, which answers each line with one line. Dropping it kills it.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts an application, which reports. `program` is the file of `arbiter-peer`.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn application(program: &str) -> Self {
        Self::start(Command::new(program))
    }

    /// Starts a controller, which sends heartbeats until it is killed.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn controller(program: &str, pins: &Path) -> Self {
        let mut command = Command::new(program);
        command.arg(pins);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let to = child.stdin.take().expect("the pipe was requested");
        let from = BufReader::new(child.stdout.take().expect("the pipe was requested"));
        let mut peer = Self { child, to, from };
        assert_eq!(peer.answer(), "ready");
        peer
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line and returns the answer.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").expect("it reads until it is killed");
        self.answer()
    }

    /// Makes it report about a claim.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn report(&mut self, operation: xsched_protocol::arbiter_page::Report, claim: ClaimName) {
        let answer = self.ask(&format!("report {} {} {}", operation as u64, claim.slot, claim.generation));
        assert_eq!(answer, "done");
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        // This fails only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("it writes lines");
        line.trim_end().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}
