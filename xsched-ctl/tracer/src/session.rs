//! A recording session, from loading the programs to removing everything from the kernel.
//!
//! One task runs it. Every [`TICK`], or when a program requests it, it empties the ring buffer and then the side-band.
//! So every mapping that a record can name is known. It then resolves the records and hands them to the recorder.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `start` | loading, attaching, what runs already |
//! | `input`, `pump` | records, batch by batch |
//! | `changes`, `lives`, `late` | what processes do besides calling; which of them were probed too late |
//! | `known` | what is known of each process: one table, which forgets an ended process as a whole |
//! | `audience`, `selection` | which processes and which of their calls are recorded |
//! | `runtimes`, `installed`, `slow` | which files are probed, and when |
//! | `guardian` | stopped processes go on, even if the tracer dies |
//! | `resolve`, `kernels`, `graphs` | names |
//! | `own_calls` | calls that processes record themselves |
//! | `chainless` | calls that wait for their chains |
//! | `driver` | calls to the kernel driver |

mod audience;
mod chainless;
pub(crate) mod changes;
mod driver;
mod graphs;
mod guardian;
mod input;
mod installed;
mod kernels;
mod known;
mod late;
mod lives;
mod own_calls;
mod pump;
pub(crate) mod resolve;
mod runtimes;
mod selection;
mod slow;
mod start;
mod unread;

use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use xsched_bpf::namespace::PidNamespace;
use xsched_chains::Chains;
use xsched_symbols::{LostEvents, Processes, Sideband, now_ns};
use xsched_terminal::say;

use crate::bpf::{Enlistment, Logs, Maps};
use crate::driver::Queues;
use crate::error::TracerError;
use crate::recorder::{Recorded, Recorder};
use crate::scheduling::{Scheduling, SettingsWatch};
use audience::Audience;
pub use audience::Targets;
use chainless::Chainless;
use driver::Driver;
use guardian::Guardian;
use input::Input;
use known::Known;
use late::Late;
use lives::Lives;
use own_calls::OwnCalls;
use resolve::Resolver;
use runtimes::Runtimes;
use selection::Selection;
use slow::Slow;
pub use start::Settings;
use unread::Unread;

/// How often the ring buffer is emptied when no program requests it.
const TICK: Duration = Duration::from_millis(20);

/// The same while stacks wait for unwind tables.
const SHORT_TICK: Duration = Duration::from_millis(2);

/// The log's name for how long the loop did not read the ring buffer, which `cargo xtask bench rate` prints.
const TURNS: &str = "xsched_tracer::turns";

/// A turn of the loop after which the ring buffer may be half full at high rates.
const TURN_GOAL: Duration = Duration::from_millis(50);

/// How long the end of a recording waits before it says so.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// A recording in progress.
pub struct Session {
    targets: Targets,
    audience: Audience,
    namespace: PidNamespace,
    selection: Selection,
    runtimes: Runtimes,
    driver: Driver,
    queues: Queues,
    maps: Maps,
    logs: Option<Logs>,
    input: Input,
    own_calls: OwnCalls,
    chains: Box<Chains>,
    chainless: Chainless,
    unread: Unread,
    sideband: Sideband,
    processes: Processes,
    resolver: Resolver,
    recorder: Recorder,
    scheduling: Scheduling,
    settings: SettingsWatch,
    known: Known,
    lives: Lives,
    lost: LostEvents,
    late: Late,
    slow: Slow,
    housekeeping_ns: u64,
    /// For so long the ring buffer was not read, at most.
    longest_turn: Duration,
    guardian: Option<Guardian>,
}

impl Session {
    /// Waits until there is something to do.
    pub async fn wait(&self) {
        if self.input.has_more() {
            return tokio::task::yield_now().await;
        }
        let tick = if self.chains.is_waiting() { SHORT_TICK } else { TICK };
        tokio::select! {
            () = self.input.readable() => {}
            () = self.runtimes.something_written() => {}
            () = tokio::time::sleep(tick) => {}
        }
    }

    /// How a command becomes a target where the programs do not add it.
    pub fn enlistment(&self) -> Option<Enlistment> {
        self.audience.selects().then(|| self.maps.enlistment())
    }

    /// Whether the single recorded process has ended. Never true of several.
    pub fn target_has_ended(&self) -> bool {
        let Targets::Process(pid) = self.targets else { return false };
        self.processes.process(pid.get()).is_none_or(|process| process.ended_ns().is_some())
    }

    /// Whether the output has reached its size limit.
    pub fn is_full(&self) -> bool {
        self.recorder.is_full()
    }

    /// Whether the output has failed.
    pub fn has_failed(&self) -> bool {
        self.recorder.has_failed()
    }

    /// Requests a dump of the flight recorder.
    pub fn dump(&mut self, reason: &str) {
        self.recorder.dump(reason);
    }

    /// Messages for the user.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.recorder.note(self.scheduling.take_notices());
        self.recorder.take_notices()
    }

    /// Notes in the timeline why recording ends early.
    pub fn ends_because(&mut self, reason: &str) -> Result<(), TracerError> {
        self.recorder.ends_because(now_ns(), reason)
    }

    /// The recorder.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Paths of the probed runtimes.
    pub fn runtimes(&self) -> impl Iterator<Item = &Path> {
        self.runtimes.paths()
    }

    /// Removes the probes and records what is left. An output that fails ends up in what was recorded.
    ///
    /// Calls may wait for unwind tables that are being built, fifteen seconds at most, or until `impatience` is ready.
    pub async fn finish(
        mut self: Box<Self>,
        impatience: impl Future<Output = ()>,
    ) -> Result<Recorded, TracerError> {
        let started = Instant::now();
        self.scheduling.end();
        // Before the probes go: a call that begins between the two takes a probe or none.
        self.own_calls.want_none();
        self.driver.detach();
        self.runtimes.detach();
        tracing::debug!(took_us = started.elapsed().as_micros(), "probes taken out");
        self.settle_waiting(impatience).await?;
        tracing::info!("processes have recorded {} launches themselves", self.own_calls.count());
        self.slow.let_all_go_on();
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
        self.count_unstopped(u64::MAX);
        self.late.add(self.slow.uncounted());
        self.slow.tell_refused();
        tracing::info!(
            target: TURNS,
            "the longest turn of the loop took {} us",
            self.longest_turn.as_micros()
        );
        self.record_pending(|_| true)?;
        let settled = self.queues.give_up_all();
        self.record_driver_calls(settled)?;
        self.read_all_unread(true)?;
        self.release(true)?;
        for call in self.scheduling.release_all() {
            self.write(&call)?;
        }
        let entries = self.scheduling.finish();
        self.recorder.scheduling(&self.processes, &entries)?;
        self.recorder.note(self.scheduling.take_notices());
        self.report_losses(now_ns())?;
        let unreadable = self.input.unreadable();
        if unreadable > 0 {
            tracing::warn!("{unreadable} records in the ring buffer were not readable");
        }
        self.recorder.ends_full(now_ns())?;
        self.recorder.left_out(now_ns(), self.left_out())?;
        // Boxed because the future contains the recorder.
        Ok(Box::pin(self.recorder.finish()).await)
    }

    /// No records are added any more, but calls may wait for their chains, or for names.
    async fn settle_waiting(&mut self, impatience: impl Future<Output = ()>) -> Result<(), TracerError> {
        let (mut impatience, mut is_impatient) = (pin!(impatience), false);
        let (since, mut has_told) = (Instant::now(), false);
        loop {
            self.pump().await?;
            let has_calls = self.input.has_more() || self.own_calls.has_early();
            let are_settled = self.chainless.is_empty() && self.unread.is_empty();
            if !has_calls && (are_settled || is_impatient) {
                return Ok(());
            }
            if !are_settled && !has_told && since.elapsed() > TELL_AFTER {
                has_told = true;
                say!("waiting for unwind tables and names of kernels; Ctrl-C does not wait");
            }
            tokio::select! {
                () = &mut impatience, if !is_impatient => is_impatient = true,
                () = self.wait() => {}
            }
        }
    }
}
