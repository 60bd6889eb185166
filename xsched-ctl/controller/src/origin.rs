//! Verdicts: what the rules say about each call, by its origin.
//!
//! ```text
//! tasks of `serve`            a thread                                    programs (xsched_protocol::verdict)
//! Order::Join  ────────────►  a page, a probe in its shim  ───────────►   VERDICT_PAGES, SPACES, …
//!                             Wanted: name the chain, ask the rules ◄──   a chain that was not requested before
//!                             decide ─────────────────────────────────►   VERDICTS
//! Order::Rules ────────────►  decide again, have the page renewed ────►   generation
//! ```
//!
//! The thread is separate from the controller's, which must never wait: this one opens files and reads symbols.

mod answers;
mod client;
mod decided;
mod kernel_names;
mod numbered;
mod ordering;
mod programs;
mod questions;
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
use xsched_control_api::peer::Party;
use xsched_protocol::probe::Runtime;
use xsched_protocol::wire::SchedulingDomain;
use xsched_rules::{Caller, Rules};
use xsched_symbols::FileId;

pub(crate) use rule_names::{Names, RuleNames};
use xsched_bpf::BpfError;
use xsched_control_api::answer::Explained;

use programs::Programs;
use worker::Worker;

/// Why BPF programs do not determine verdicts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OriginError {
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Sideband(#[from] xsched_symbols::SidebandError),
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    #[error("cannot find the controller's own code: {0}")]
    OwnCode(#[source] io::Error),
    /// The probe at this process's own function did not fire.
    #[error("the programs do not see this process")]
    Unheard,
}

/// Why a process decides about its own calls.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("the shim of process {0} does not have the function `{symbol}`", symbol = xsched_protocol::verdict::CLASSIFY_SYMBOL)]
    NoFunction(u32),
    #[error("cannot read process {pid}: {cause}")]
    Unreadable {
        pid: u32,
        #[source]
        cause: io::Error,
    },
    /// There is one page for a process, and the shim that has joined first has it.
    #[error("the programs answer the shim for {} of process {pid}", holder.name())]
    Taken { pid: u32, holder: Runtime },
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// Identifies a connection of a process.
pub(crate) type ClientKey = u32;

/// A process that has joined.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) key: ClientKey,
    /// Its id in the controller's pid namespace.
    pub(crate) pid: u32,
    /// Its id in the initial pid namespace.
    pub(crate) tgid: u32,
    /// What it makes the thread and the programs keep counts for this.
    pub(crate) party: Party,
    pub(crate) shim: FileId,
    /// The runtime that the shim is for.
    pub(crate) runtime: Runtime,
    /// What rules may ask about it.
    pub(crate) caller: Caller,
}

#[cfg(test)]
impl Newcomer {
    /// A process with this shim, which is for HIP.
    fn with_shim(pid: u32, shim: FileId) -> Self {
        let (party, runtime, caller) = (Party::User(0), Runtime::Hip, Caller::default());
        Self { key: 7, pid, tgid: pid, party, shim, runtime, caller }
    }

    /// One that need not exist.
    fn made_up() -> Self {
        Self::with_shim(1, FileId { device_major: 1, device_minor: 2, inode: 3, generation: None })
    }
}

/// A verdict page for a process.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) map: OwnedFd,
}

/// Messages to the thread.
pub(crate) enum Order {
    /// A process has joined, and must get a page.
    Join(Box<Newcomer>, oneshot::Sender<Result<Page, JoinError>>),
    /// A connection has ended.
    Leave(ClientKey),
    /// A library has declared what its calls are.
    Domain(ClientKey, String, SchedulingDomain),
    /// A process has numbered a kernel.
    Kernel(ClientKey, u32, String),
    /// The attributes of a process for rules have changed.
    Caller(ClientKey, Box<Caller>),
    /// The user of a process has rules for it.
    Settings(ClientKey, Box<Rules>),
    /// Replaces the rules. Answered when they apply.
    Rules(Arc<Rules>, oneshot::Sender<()>),
    /// A shim is no longer probed.
    LetGo(FileId),
    /// Answered when everything before it was handled.
    Heard(oneshot::Sender<()>),
    /// The verdicts on a process's calls, and the reasons.
    Explain(u32, oneshot::Sender<Option<Explained>>),
    /// Ends the thread.
    End,
}

/// What the thread publishes.
struct Told {
    rule_names: RuleNames,
    libraries: watch::Sender<Vec<Arc<str>>>,
    answered_again: Arc<AtomicU64>,
}

/// Names of the libraries to which calls belong, in the order of their numbers, which begin with 1.
pub(crate) type OriginNames = watch::Receiver<Vec<Arc<str>>>;

pub(crate) struct Origin {
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    libraries: OriginNames,
    answered_again: Arc<AtomicU64>,
}

/// Loads and attaches the programs for a moment, beside those of a controller that may be running.
pub(crate) fn try_programs() -> Result<(), OriginError> {
    let (mut programs, _) = Programs::load()?;
    Ok(programs.watch_mappings()?)
}

impl Origin {
    /// Loads the programs and starts the thread, which numbers the rules.
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
        // A thread that ends without a message has panicked.
        outcome.recv().unwrap_or_else(|_| Err(OriginError::Thread(io::Error::other("it has ended"))))?;
        Ok(Self { orders, bell, thread: Some(thread), libraries, answered_again })
    }

    /// Names of the libraries to which calls belong.
    pub(crate) fn origin_names(&self) -> OriginNames {
        self.libraries.clone()
    }

    /// Number of verdicts that were evicted from the map and had to be given again.
    pub(crate) fn answered_again(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.answered_again)
    }

    pub(crate) fn tell(&self, order: Order) {
        // If the thread has ended, senders of requests notice that no answer comes.
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
