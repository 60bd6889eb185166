//! Processes that share the device: the program `shares`, which executes kernels on request, with one or two copies of the runtime.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::recording::host;

/// The library through which the program uses the system's runtime.
pub(crate) const SYSTEM: &str = "libshare.so";

/// The one through which it uses a copy, by the name that a wheel gives it.
pub(crate) const WHEEL: &str = "libshare_wheel.so";

/// The system's runtime and its copy, in the shared folder.
pub(crate) const RUNTIMES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/libamdhip64.so.5", "wheel/libamdhip64-w.so"];

/// What is asked for: so many kernels with each copy, of so many rounds of five instructions.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) kernels: usize,
    pub(crate) rounds: u32,
}

/// When a kernel began and ended on the device.
pub(crate) type Executed = (u64, u64);

/// The program.
pub(crate) struct Sharer {
    pub(crate) child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    copies: usize,
    asked: usize,
}

impl Sharer {
    /// Starts it with the copies of these libraries, and waits until it can take requests.
    pub(crate) fn start(mut command: Command, libraries: &[&str]) -> Self {
        if libraries.contains(&WHEEL) {
            make_wheel();
        }
        command.args(libraries.iter().map(|library| host(library)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was staged");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let copies = libraries.len();
        let mut sharer = Self { child, input, output, copies, asked: 0 };
        assert_eq!(sharer.line(), "ready");
        sharer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes text");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, Request { kernels, rounds }: Request) {
        self.asked += kernels * self.copies;
        writeln!(self.input, "{kernels} {rounds}").expect("it reads its input");
    }

    fn answer(&mut self) -> Vec<Executed> {
        let line = self.line();
        let read = || {
            let pair = |pair: &str| {
                let (begin, end) = pair.split_once('-')?;
                Some((begin.parse().ok()?, end.parse().ok()?))
            };
            line.strip_suffix(" done")?.split(' ').map(pair).collect::<Option<_>>()
        };
        read().unwrap_or_else(|| panic!("{line}"))
    }

    /// Has a request executed. When its kernels were, those of the first copy first.
    pub(crate) fn execute(&mut self, request: Request) -> Vec<Executed> {
        self.ask(request);
        self.answer()
    }

    /// Has a request executed over and over until it is told to stop, the next one always asked for. When the kernels were executed.
    pub(crate) fn keep_busy(&mut self, request: Request, stop: &AtomicBool) -> Vec<Executed> {
        let mut executed = Vec::new();
        self.ask(request);
        while !stop.load(Ordering::Relaxed) {
            self.ask(request);
            executed.extend(self.answer());
        }
        executed.extend(self.answer());
        executed
    }

    /// Ends it. All of its kernels have computed what they should.
    pub(crate) fn finish(self) {
        let Self { mut child, input, mut output, copies, asked } = self;
        drop(input);
        let mut said = String::new();
        output.read_line(&mut said).expect("it writes text");
        let status = child.wait().expect("it is a child");
        let values = 64 * copies;
        let expected = format!("{values} of {values} values are right after {asked} kernels\n");
        assert_eq!((said, status.success()), (expected, true));
    }
}

/// Puts a copy of AMD's runtime where [`WHEEL`] looks for it.
fn make_wheel() {
    let [system, copy] = RUNTIMES;
    fs::create_dir_all(host("wheel")).expect("the shared folder is writable");
    fs::copy(system, host(copy)).expect("the root file system has the runtime");
}
