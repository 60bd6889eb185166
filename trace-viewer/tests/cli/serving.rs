//! The program while it serves.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Generous: nothing here should take a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The program, without a desktop: no test opens a browser.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace-viewer"));
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command
}

/// The program while it serves a recording.
pub(crate) struct Serving {
    program: Child,
    /// The host and the port at which it listens.
    pub(crate) address: String,
    /// The path in the address that it has printed.
    pub(crate) path: String,
    /// The text before `http://` in the address that it has printed.
    pub(crate) before: String,
    pub(crate) stderr: BufReader<ChildStderr>,
    pub(crate) file: PathBuf,
    _folder: TempDir,
}

impl Serving {
    /// Serves `trace` from a file of this name.
    pub(crate) fn start(trace: &[u8], name: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        fs::write(&file, trace).unwrap();
        let mut program = program()
            .arg(&file)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (before, rest) = url.trim_end().rsplit_once("http://").unwrap();
        let (address, path) = rest.split_once('/').unwrap();
        let (address, path, before) = (address.to_owned(), format!("/{path}"), before.to_owned());
        let stderr = BufReader::new(program.stderr.take().unwrap());
        Self { program, address, path, before, stderr, file, _folder: folder }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request; returns the status, the head of the answer, in lower case, and its body.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> (u16, String, Vec<u8>) {
        let mut stream = self.connect();
        let host =
            if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        write!(stream, "{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head_len = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = answer.split_off(head_len);
        let head = String::from_utf8(answer).unwrap().to_lowercase();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head, body)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.program.try_wait().unwrap().is_none()
    }

    /// Waits for the program to end by itself.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the program still serves");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
