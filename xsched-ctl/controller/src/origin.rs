//! Verdicts: what the rules say of each call, by who really makes it.
//!
//! ```text
//! tasks of `serve`            a thread                                    programs (xsched_protocol::verdict)
//! Order::Join  ────────────►  a page, a probe in its shim  ───────────►   VERDICT_PAGES, SPACES, …
//!                             Wanted: name the chain, ask the rules ◄──   a chain that nobody has asked about before
//!                             decide ─────────────────────────────────►   VERDICTS
//! Order::Rules ────────────►  decide anew, have the page renewed ──────►   generation
//! ```
//!
//! The thread is apart from the controller's, which must never wait: here files are opened and symbols are read.

mod answers;
mod client;
mod decided;
mod numbered;
mod ordering;
mod programs;
mod rule_names;
mod worker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{oneshot, watch};
use xsched_protocol::wire::SchedulingDomain;
use xsched_rules::{Caller, Rules};
use xsched_symbols::FileId;

pub(crate) use rule_names::{Names, RuleNames};
use xsched_bpf::BpfError;
use xsched_control_api::answer::Explained;

use worker::Worker;

/// Why no programs decide.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OriginError {
    /// The kernel refused maps or programs.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Mappings cannot be followed.
    #[error(transparent)]
    Sideband(#[from] xsched_symbols::SidebandError),
    /// A thread or what it waits for cannot be made.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// This process's own code is not to be found.
    #[error("cannot find the controller's own code: {0}")]
    OwnCode(io::Error),
    /// The probe at this process's own function did not fire.
    #[error("the programs do not hear this process")]
    Unheard,
}

/// Why the calls of one process are decided about in that process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    /// It has no function to ask by.
    #[error("the shim of process {0} does not have the function `{symbol}`", symbol = xsched_protocol::verdict::CLASSIFY_SYMBOL)]
    NoFunction(u32),
    /// It cannot be looked at.
    #[error("cannot read process {pid}: {cause}")]
    Unreadable {
        /// Which one.
        pid: u32,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel refused a page or a probe.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// Names a connection of a process.
pub(crate) type ClientKey = u32;

/// A process that has joined.
#[derive(Debug)]
pub(crate) struct Newcomer {
    /// Its connection.
    pub(crate) key: ClientKey,
    /// Its id here.
    pub(crate) pid: u32,
    /// Its id in the initial pid namespace.
    pub(crate) tgid: u32,
    /// Its user.
    pub(crate) uid: u32,
    /// The file of its shim.
    pub(crate) shim: FileId,
    /// What rules may ask about it.
    pub(crate) caller: Caller,
}

/// A page for a process.
#[derive(Debug)]
pub(crate) struct Page {
    /// What it maps.
    pub(crate) map: OwnedFd,
}

/// What the thread is told.
pub(crate) enum Order {
    /// A process has joined, and is to have a page.
    Join(Box<Newcomer>, oneshot::Sender<Result<Page, JoinError>>),
    /// A connection has ended.
    Leave(ClientKey),
    /// A library has said what its calls are.
    Domain(ClientKey, String, SchedulingDomain),
    /// A process has numbered a kernel.
    Kernel(ClientKey, u32, String),
    /// Rules may ask this about a process from now on.
    Caller(ClientKey, Box<Caller>),
    /// The user of a process has rules of his own.
    Settings(ClientKey, Box<Rules>),
    /// Other rules hold. Answered when they do.
    Rules(Arc<Rules>, oneshot::Sender<()>),
    /// A shim is probed no more.
    LetGo(FileId),
    /// Answered when everything before it was heard.
    Heard(oneshot::Sender<()>),
    /// What was decided about a process's calls, and why.
    Explain(u32, oneshot::Sender<Option<Explained>>),
    /// The end.
    End,
}

/// What the thread tells.
struct Told {
    rule_names: RuleNames,
    libraries: watch::Sender<Vec<Arc<str>>>,
    answered_again: Arc<AtomicU64>,
}

/// What libraries are called that calls belong to, in the order of their numbers, which begin with 1.
pub(crate) type OriginNames = watch::Receiver<Vec<Arc<str>>>;

/// The thread.
pub(crate) struct Origin {
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    libraries: OriginNames,
    answered_again: Arc<AtomicU64>,
}

impl Origin {
    /// Loads the programs and starts the thread. Rules get their numbers there.
    pub(crate) fn start(rules: Arc<Rules>, rule_names: RuleNames) -> Result<Self, OriginError> {
        let thread_error = |error: rustix::io::Errno| OriginError::Thread(error.into());
        let bell =
            Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(thread_error)?);
        let (orders, inbox) = channel();
        let (started, outcome) = channel();
        let worker_bell = Arc::clone(&bell);
        let (told_libraries, libraries) = watch::channel(Vec::new());
        let answered_again = Arc::new(AtomicU64::new(0));
        let told =
            Told { rule_names, libraries: told_libraries, answered_again: Arc::clone(&answered_again) };
        let thread = std::thread::Builder::new()
            .name("xsched-origin".to_owned())
            .spawn(move || work(|| Worker::new(rules, inbox, worker_bell, told), &started))
            .map_err(OriginError::Thread)?;
        // A thread that ends without having said anything has panicked.
        outcome.recv().unwrap_or_else(|_| Err(OriginError::Thread(io::Error::other("it has ended"))))?;
        Ok(Self { orders, bell, thread: Some(thread), libraries, answered_again })
    }

    /// What libraries are called that calls belong to.
    pub(crate) fn origin_names(&self) -> OriginNames {
        self.libraries.clone()
    }

    /// Answers that the map has forgotten to make room, and that were given again.
    pub(crate) fn answered_again(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.answered_again)
    }

    /// Tells the thread something.
    pub(crate) fn tell(&self, order: Order) {
        // A thread that is gone takes no orders; what is asked of it is answered by its absence.
        if self.orders.send(order).is_ok() {
            let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        }
    }
}

fn work(make: impl FnOnce() -> Result<Worker, OriginError>, started: &Sender<Result<(), OriginError>>) {
    match make() {
        Ok(worker) => {
            let _ = started.send(Ok(()));
            worker.run();
        }
        Err(error) => drop(started.send(Err(error))),
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.tell(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
