//! What all tasks of the controller share. Each borrows it for as long as it does not wait.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use xsched_bpf::Written;
use xsched_symbols::now_ns;

use crate::controller::{ClientId, Controller};
use crate::directory::Directory;
use crate::origin::{Origin, RuleNames};
use crate::rules::Loaded;
use crate::turns::{Lines, Turns};

pub(crate) struct Shared {
    pub(crate) controller: RefCell<Controller>,
    /// The time of the next decision may have changed.
    pub(crate) decided: Notify,
    /// A process may have joined.
    pub(crate) joined: Notify,
    pub(crate) rules: watch::Sender<Loaded>,
    pub(crate) rule_names: RuleNames,
    /// Different rules may match some processes now.
    pub(crate) subjects: watch::Sender<()>,
    /// BPF programs that find the origins of calls; none where processes decide for themselves.
    pub(crate) origin: Option<Origin>,
    /// A recording has started or ended.
    pub(crate) recording: Notify,
    /// The log has already warned of processes that have no id in this pid namespace.
    pub(crate) has_strangers: Cell<bool>,
    pub(crate) directory: Directory,
    /// Searches for the shims of processes.
    pub(crate) searches: Turns,
    /// Commands that change something.
    pub(crate) orders: Turns,
    /// Reading the rules that processes bring.
    pub(crate) readings: Turns,
    pub(crate) lines: Lines,
    /// Watches the files of probed shims for writes; none where the kernel does not report writes.
    pub(crate) written: Option<AsyncFd<Written>>,
}

impl Shared {
    /// Brings the controller up to date, applies `change`, and puts the resulting decisions into effect.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Controller) -> T) -> T {
        let mut controller = self.controller.borrow_mut();
        let has_joined = controller.take_events(now_ns());
        let result = change(&mut controller);
        controller.settle(now_ns());
        self.decided.notify_one();
        if has_joined {
            self.joined.notify_waiters();
        }
        result
    }

    /// Waits until a process has shown its token. Returns whether it has within this time.
    pub(crate) async fn has_joined(&self, id: ClientId, patience: Duration) -> bool {
        let joined = async {
            loop {
                let next = self.joined.notified();
                if self.with(|controller| controller.has_joined(id)) {
                    return;
                }
                next.await;
            }
        };
        timeout(patience, joined).await.is_ok()
    }
}
