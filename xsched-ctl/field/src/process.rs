//! A process that the kit starts: in a process group of its own, with bounded output, and ended with all its children.
//!
//! The kit signals only such groups. A group's number stays taken while its leader is not waited for, and the kit waits after
//! its last signal: so no other process can get a signal. If the kit is killed, the kernel ends its children (`PR_SET_PDEATHSIG`).

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::bounded::{Head, Lines, Tail};
use crate::speech::{self, Word};
use crate::trouble::Trouble;

/// The longest word of a participant: a line with 20,000 samples.
const LINE_MAX: usize = 1 << 20;
/// What is kept of other output.
const CAPTURED_MAX: usize = 4 << 20;
const TAIL_MAX: usize = 8 << 10;
/// Words that wait to be heard; more are dropped.
const WORDS_MAX: usize = 256;
/// How long a process may take to end after SIGTERM, and after SIGKILL.
const TERM_PATIENCE: Duration = Duration::from_secs(2);
const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// For how long the last words of a process that has ended are read. A child of its may keep the pipe open.
const LAST_WORDS_PATIENCE: Duration = Duration::from_millis(300);

/// What to start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// What messages call it.
    pub(crate) name: String,
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

/// What a process has said.
#[derive(Debug)]
struct Heard {
    stdout: Head,
    stdout_tail: Tail,
    stderr: Tail,
}

/// A running process.
pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    group: Pid,
    stdin: Option<ChildStdin>,
    words: mpsc::Receiver<Word>,
    heard: Arc<Mutex<Heard>>,
    readers: Vec<JoinHandle<()>>,
    /// The last thing that it said it would try.
    trying: Option<String>,
    rungs: Vec<speech::Rung>,
    has_ended: bool,
}

impl Process {
    pub(crate) fn start(order: &Order) -> Result<Self, Trouble> {
        let (program, arguments) = order.words.split_first().expect("an order names a program");
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(order.environment.iter().map(|(name, value)| (name, value)));
        // SAFETY: one system call, which allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let not_started = |cause: io::Error| Trouble::NotStarted { name: order.name.clone(), cause };
        let mut child = command.spawn().map_err(not_started)?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32)).expect("it was not waited for");
        let heard = Arc::new(Mutex::new(Heard {
            stdout: Head::new(CAPTURED_MAX),
            stdout_tail: Tail::new(TAIL_MAX),
            stderr: Tail::new(TAIL_MAX),
        }));
        let (tell, words) = mpsc::channel(WORDS_MAX);
        let mut lines = Lines::new(LINE_MAX);
        let (of_stdout, of_stderr) = (Arc::clone(&heard), Arc::clone(&heard));
        let mut readers = Vec::new();
        let stdin = child.stdin.take();
        readers.extend(child.stdout.take().map(|stdout| {
            tokio::spawn(read(stdout, move |bytes| {
                let mut heard = of_stdout.lock().unwrap_or_else(PoisonError::into_inner);
                heard.stdout.add(bytes);
                lines.add(bytes, |line| match speech::heard(line) {
                    // Nothing that the protocol needs is dropped: a participant says less.
                    Some(word) => drop(tell.try_send(word)),
                    None => heard.stdout_tail.add(format!("{line}\n").as_bytes()),
                });
            }))
        }));
        readers.extend(child.stderr.take().map(|stderr| {
            tokio::spawn(read(stderr, move |bytes| {
                of_stderr.lock().unwrap_or_else(PoisonError::into_inner).stderr.add(bytes);
            }))
        }));
        Ok(Self {
            name: order.name.clone(),
            child,
            group: pid,
            stdin,
            words,
            heard,
            readers,
            trying: None,
            rungs: Vec::new(),
            has_ended: false,
        })
    }

    /// Waits until it is ready to be measured.
    pub(crate) async fn ready(&mut self, deadline: Instant) -> Result<(), Trouble> {
        match self.word(deadline).await? {
            Word::Ready => Ok(()),
            Word::Result(outcome) => Err(self.no_result(outcome)),
            Word::Trying(_) | Word::Done(_) => unreachable!("these are kept where they are heard"),
        }
    }

    /// Lets it begin.
    pub(crate) async fn go(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            // A process that has ended is noticed by its missing result.
            let _ = stdin.write_all(b"go\n").await;
            let _ = stdin.flush().await;
        }
    }

    /// Waits for its result.
    pub(crate) async fn result(&mut self, deadline: Instant) -> Result<speech::Outcome, Trouble> {
        loop {
            match self.word(deadline).await? {
                Word::Result(outcome) if outcome.error.is_none() && outcome.absent.is_none() => {
                    return Ok(outcome);
                }
                Word::Result(outcome) => return Err(self.no_result(outcome)),
                _ => {}
            }
        }
    }

    fn no_result(&self, outcome: speech::Outcome) -> Trouble {
        let name = self.name.clone();
        match (outcome.absent, outcome.error) {
            (Some(absent), _) => Trouble::Absent(absent),
            (None, Some(error)) => Trouble::Failed { name, error },
            (None, None) => {
                Trouble::Failed { name, error: "it had a result before all were ready".to_owned() }
            }
        }
    }

    /// The next word that matters; what it tries and has done is kept.
    async fn word(&mut self, deadline: Instant) -> Result<Word, Trouble> {
        loop {
            match self.hear(deadline).await {
                Sound::Silence => {
                    return Err(Trouble::Silent {
                        name: self.name.clone(),
                        trying: self.trying.clone(),
                        said: self.last_words(),
                    });
                }
                Sound::Word(Word::Trying(what)) => self.trying = Some(what),
                Sound::Word(Word::Done(rung)) => {
                    self.trying = None;
                    self.rungs.push(rung);
                }
                Sound::Word(word) => return Ok(word),
                Sound::End => {
                    let status = self.wait_until(Instant::now() + TERM_PATIENCE).await;
                    return Err(Trouble::Ended {
                        name: self.name.clone(),
                        status: status.map_or_else(|| "closed its output".to_owned(), describe),
                        trying: self.trying.clone(),
                        said: self.last_words(),
                    });
                }
            }
        }
    }

    /// Waits for its next word. Its end is noticed even if a child of its keeps the pipe open.
    async fn hear(&mut self, deadline: Instant) -> Sound {
        let ended = async {
            wait_unreaped(self.group).await;
            tokio::time::sleep(LAST_WORDS_PATIENCE).await;
        };
        tokio::select! {
            biased;
            word = self.words.recv() => word.map_or(Sound::End, Sound::Word),
            () = ended => Sound::End,
            () = tokio::time::sleep_until(deadline.into()) => Sound::Silence,
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended || has_ended(self.group)
    }

    /// The rungs that it has done so far.
    pub(crate) fn rungs(&self) -> &[speech::Rung] {
        &self.rungs
    }

    /// What it tried last and has not done.
    pub(crate) fn trying(&self) -> Option<&str> {
        self.trying.as_deref()
    }

    /// Waits for its end, and returns its status and its whole output, as far as it is kept.
    pub(crate) async fn output(mut self, deadline: Instant) -> Result<Output, Trouble> {
        self.stdin = None;
        let Some(status) = self.wait_until(deadline).await else {
            return Err(Trouble::Silent { name: self.name.clone(), trying: None, said: self.last_words() });
        };
        // What is in the pipes; a grandchild may hold them open.
        for reader in &mut self.readers {
            let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
        }
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Output { status, stdout: heard.stdout.text(), stderr: heard.stderr.text() })
    }

    /// Waits until it has ended by itself; otherwise ends it.
    pub(crate) async fn finish(mut self, patience: Duration) -> Output {
        self.stdin = None;
        let status = self.wait_until(Instant::now() + patience).await;
        if status.is_none() {
            self.end();
        }
        let readers = std::mem::take(&mut self.readers);
        for reader in readers {
            let _ = tokio::time::timeout(Duration::from_millis(300), reader).await;
        }
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (stdout, stderr) = (heard.stdout.text(), heard.stderr.text());
        Output { status: status.unwrap_or_default(), stdout, stderr }
    }

    /// Waits for the first line of its standard output.
    pub(crate) async fn first_line(&mut self, deadline: Instant) -> Result<(), Trouble> {
        loop {
            let has_line = {
                let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.stdout.text().contains('\n')
            };
            if has_line {
                return Ok(());
            }
            if let Some(status) = self.wait_until(Instant::now() + Duration::from_millis(20)).await {
                return Err(Trouble::Ended {
                    name: self.name.clone(),
                    status: describe(status),
                    trying: None,
                    said: self.last_words(),
                });
            }
            if Instant::now() >= deadline {
                return Err(Trouble::Silent {
                    name: self.name.clone(),
                    trying: None,
                    said: self.last_words(),
                });
            }
        }
    }

    /// The last lines of what it has said, both outputs.
    pub(crate) fn last_words(&self) -> String {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = [heard.stdout_tail.text(), heard.stderr.text()].concat();
        // Colours, progress bars, and what else commands a terminal.
        text.retain(|character| character == '\n' || !character.is_control());
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    async fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        let left = deadline.saturating_duration_since(Instant::now());
        // The group gets its last signal before its leader is waited for, see `end`.
        let ended = tokio::time::timeout(left, wait_unreaped(self.group)).await.is_ok();
        if !ended {
            return None;
        }
        self.signal(Signal::KILL);
        let status = self.child.wait().await.ok();
        self.has_ended = true;
        status
    }

    /// Sends a signal to its group: to itself, and to what it has started and left in the group.
    fn signal(&self, signal: Signal) {
        if !self.has_ended {
            // This fails only if all have ended.
            let _ = kill_process_group(self.group, signal);
        }
    }

    /// Asks it to end.
    pub(crate) fn ask_to_end(&mut self) {
        self.stdin = None;
        self.signal(Signal::TERM);
    }

    /// Ends it, if it has not ended yet.
    pub(crate) fn end(&mut self) {
        if self.has_ended {
            return;
        }
        self.ask_to_end();
        if !ends_within(self.group, TERM_PATIENCE) {
            self.signal(Signal::KILL);
            ends_within(self.group, KILL_PATIENCE);
        }
        // What is left of the group.
        self.signal(Signal::KILL);
        self.has_ended = true;
        let _ = self.child.try_wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        for reader in &self.readers {
            reader.abort();
        }
    }
}

/// What there is to hear of a process.
enum Sound {
    Word(Word),
    /// Nothing, for too long.
    Silence,
    /// It has ended, or closed its standard output: it will not say more.
    End,
}

/// How a process has ended, and what it has printed.
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Whether a child has ended. It is left to be waited for.
fn has_ended(child: Pid) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that it was waited for already.
    waitid(WaitId::Pid(child), options).map_or(true, |status| status.is_some())
}

async fn wait_unreaped(child: Pid) {
    let mut pause = Duration::from_millis(1);
    while !has_ended(child) {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn ends_within(child: Pid, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while !has_ended(child) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

async fn read(mut from: impl AsyncRead + Unpin, mut take: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        take(&buffer[..length]);
    }
}

/// An exit status in words.
pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Order {
        Order {
            name: "child".to_owned(),
            words: ["sh", "-c", script].map(Into::into).to_vec(),
            ..Order::default()
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[tokio::test]
    async fn a_participant_waits_for_go_and_has_a_result() {
        let script = r#"echo noise; echo '@field {"trying":"it"}'; echo '@field {"done":{"name":"it","ms":1}}'
            echo '@field "ready"'; read go; echo '@field {"result":{"values":[["x",1.5]]}}'"#;
        let mut process = Process::start(&shell(script)).unwrap();
        process.ready(soon()).await.unwrap();
        process.go().await;
        let outcome = process.result(soon()).await.unwrap();
        assert_eq!((outcome.value("x"), process.rungs().len()), (Some(1.5), 1));
        assert_eq!(process.last_words(), "noise");
    }

    #[tokio::test]
    async fn what_a_participant_tried_last_is_named() {
        let script = r#"echo '@field {"trying":"randn"}'; echo broken >&2; exit 3"#;
        let mut process = Process::start(&shell(script)).unwrap();
        let error = process.ready(soon()).await.unwrap_err().to_string();
        assert_eq!(error, "child ended with status 3 in `randn`: broken");
    }

    #[tokio::test]
    async fn the_end_of_a_participant_is_noticed_although_its_child_keeps_the_pipe() {
        let script = r#"sleep 1000 & echo '@field {"trying":"it"}'; exit 5"#;
        let mut process = Process::start(&shell(script)).unwrap();
        let began = Instant::now();
        let error = process.ready(soon()).await.unwrap_err().to_string();
        assert!(error.starts_with("child ended with status 5 in `it`"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(10), "only at the deadline");
        assert!(process.is_over());
    }

    #[tokio::test]
    async fn a_flood_costs_no_memory_and_hides_no_word() {
        let script = r#"head -c 100000000 /dev/zero >&2; head -c 100000000 /dev/zero; echo; echo '@field "ready"'; read go"#;
        let mut process = Process::start(&shell(script)).unwrap();
        process.ready(soon()).await.unwrap();
        let heard = process.heard.lock().unwrap();
        assert!(heard.stderr.text().len() <= TAIL_MAX + 100);
        assert!(heard.stdout.text().len() <= CAPTURED_MAX);
    }

    #[tokio::test]
    async fn a_silent_participant_is_ended_with_its_children() {
        let script = "sleep 1000 & echo $!; trap '' TERM; wait; wait";
        let mut process = Process::start(&shell(script)).unwrap();
        process.first_line(soon()).await.unwrap();
        let child: i32 = process.heard.lock().unwrap().stdout.text().trim().parse().unwrap();
        let error = process.ready(Instant::now() + Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(error, Trouble::Silent { .. }), "{error}");
        drop(process);
        let deadline = soon();
        while rustix::process::test_kill_process(Pid::from_raw(child).unwrap()).is_ok() {
            // It may not have been waited for by its new parent yet.
            let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            if state.contains(") Z ") {
                break;
            }
            assert!(Instant::now() < deadline, "the child of a child lives");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn output_is_whole_and_statuses_are_described() {
        let output =
            Process::start(&shell("echo out; echo err >&2; exit 7")).unwrap().output(soon()).await.unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(describe(output.status), "ended with status 7");
    }
}
