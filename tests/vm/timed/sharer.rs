//! Processes that share the device: the program `shares`, which executes kernels on request.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// What is asked for: so many kernels, of so many rounds of five instructions.
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
    asked: usize,
}

impl Sharer {
    /// Starts it, and waits until it can take requests.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was staged");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut sharer = Self { child, input, output, asked: 0 };
        assert_eq!(sharer.line(), "ready");
        sharer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes text");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, Request { kernels, rounds }: Request) {
        self.asked += kernels;
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

    /// Has a request executed. When its kernels were.
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
        let Self { mut child, input, mut output, asked } = self;
        drop(input);
        let mut said = String::new();
        output.read_line(&mut said).expect("it writes text");
        let status = child.wait().expect("it is a child");
        assert_eq!(
            (said, status.success()),
            (format!("64 of 64 values are right after {asked} kernels\n"), true)
        );
    }
}
