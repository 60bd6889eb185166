//! Processes what was reported, batch by batch: reads the ring buffers, resolves the records, passes them to the
//! recorder.

use std::time::Instant;

use xsched_abi::{Call, Counter, Filter};
use xsched_bpf::Record;
use xsched_chains::CALL_PATIENCE;
use xsched_recording::{LeftOut, Reason};
use xsched_symbols::now_ns;

use super::chainless::Source;
use super::guardian::go_on;
use super::{Session, TURN_GOAL, TURNS};
use crate::call::RuntimeCall;
use crate::error::TracerError;
use crate::scheduling::DEVICE_PATIENCE_NS;

/// How long data of an ended process is kept. Records may still be on their way, and calls may wait: first for their chains, then
/// for the device.
const GRACE_NS: u64 = 20_000_000_000;

const _: () = assert!(GRACE_NS > CALL_PATIENCE.as_nanos() as u64 + DEVICE_PATIENCE_NS);

/// How often clocks are correlated and data of ended processes is freed.
const HOUSEKEEPING_NS: u64 = 5_000_000_000;

impl Session {
    /// Takes in what has been reported so far, or a large part of it. So a caller that repeats this can check for
    /// signals in between, however busy the traced processes are.
    pub async fn pump(&mut self) -> Result<(), TracerError> {
        let began = Instant::now();
        let outcome = self.turn().await;
        let took = began.elapsed();
        self.longest_turn = self.longest_turn.max(took);
        if took > TURN_GOAL {
            tracing::debug!(target: TURNS, ?took, "a long turn of the loop");
        }
        outcome
    }

    async fn turn(&mut self) -> Result<(), TracerError> {
        self.pump_batch().await?;
        if let Some(logs) = &mut self.logs {
            logs.pass_on();
        }
        let entries = self.scheduling.poll(self.input.called_until_ns());
        for call in self.scheduling.release() {
            self.write(&call)?;
        }
        self.recorder.scheduling(&self.processes, &entries)?;
        let changes = self.settings.poll(self.scheduling.begun()).await;
        self.recorder.settings(&self.processes, changes)?;
        let now_ns = now_ns();
        self.report_losses(now_ns)?;
        if now_ns - self.housekeeping_ns > HOUSEKEEPING_NS {
            self.housekeeping_ns = now_ns;
            self.recorder.clocks()?;
            self.recorder.left_out(now_ns, self.left_out())?;
            self.driver.tidy(&self.known)?;
            self.settle_queues()?;
            // A user may watch the file grow.
            self.recorder.pass_on(true).await;
            // A full ring buffer may still hold records of processes that ended long ago; or their calls wait.
            if !self.input.has_more() && self.unread.is_empty() {
                self.forget_before(now_ns.saturating_sub(GRACE_NS));
            }
        }
        Ok(())
    }

    async fn pump_batch(&mut self) -> Result<(), TracerError> {
        let (mut records, drained_ns) = self.input.read();
        self.scheduling.hear();
        self.read_own_calls(&mut records);
        if self.runtimes.let_go_of_written() {
            // Another file may be at this path afterwards.
            self.maps.know_no_path();
        }
        for record in &records {
            match record {
                Record::Opened(opened) => self.opening(opened),
                Record::DeviceOpened(opened) => {
                    self.driver.opened(opened, &mut self.known, &mut self.runtimes);
                    if opened.is_stopped != 0 {
                        go_on(opened.tgid);
                    }
                }
                _ => {}
            }
        }
        let seen_ns = self.take_changes(&records);
        self.resolver.begin_batch(&mut self.known, self.maps.losses().calls() + self.own_calls.lost());

        // Programs on several processors write records; they are sorted by time.
        records.sort_by_key(Record::time_ns);
        for record in &mut records {
            match record {
                Record::Stack { stack, addresses } => {
                    self.chains.walked(&mut self.processes, &mut self.resolver.names, stack, addresses);
                }
                Record::Snapshot { snapshot, words } => {
                    self.chains.copied(snapshot.clone(), std::mem::take(words));
                }
                _ => {}
            }
        }
        self.chains.work(&mut self.processes, &mut self.resolver.names, seen_ns);
        self.own_calls.publish(&self.chains);
        for record in &records {
            match record {
                Record::Call { call, text } => self.call_returned(call, text)?,
                Record::Ioctl(ioctl) => self.driver_returned(ioctl)?,
                Record::Opened(_)
                | Record::LoaderStop(_)
                | Record::DeviceOpened(_)
                | Record::Stack { .. }
                | Record::Snapshot { .. }
                | Record::Wanted(_) => {}
            }
        }
        self.read_all_unread(false)?;
        self.release(false)?;
        if !self.input.has_more() {
            self.settle_changes(drained_ns)?;
        }
        self.recorder.pass_on(false).await;
        self.input.reuse(records);
        Ok(())
    }

    /// Adds calls that processes have recorded themselves, and notes what they have mapped so far.
    fn read_own_calls(&mut self, records: &mut Vec<Record>) {
        if self.scheduling.is_shared() && self.own_calls.want_none() {
            tracing::info!("another recorder needs to see all calls: probes record every launch from now on");
        }
        for (pid, calls) in self.scheduling.take_calls() {
            self.own_calls.begin(pid, calls);
        }
        self.own_calls.look(|pid| self.audience.includes(pid, &self.maps));
        self.own_calls.read(records, self.input.called_until_ns());
    }

    /// Forgets what ended before a time; no record from before that can still be on its way.
    fn forget_before(&mut self, before_ns: u64) {
        self.count_unstopped(before_ns);
        self.processes.forget_exited(before_ns);
        self.recorder.forget_ended(before_ns);
        while let Some(pid) = self.known.forget_before(before_ns) {
            self.chains.ended(pid);
            self.resolver.names.ended(pid);
            self.recorder.forget(pid);
        }
        self.chains.forget_old();
    }

    pub(super) fn report_losses(&mut self, now_ns: u64) -> Result<(), TracerError> {
        let mut losses = self.maps.losses().plus(Counter::LateProbes, self.late.count());
        losses = losses.plus(Counter::ChainMapsFull, self.chains.refused());
        losses = losses.plus(Counter::OwnCallsLost, self.own_calls.lost());
        losses = self.selection.add_losses(losses);
        for (cause, count) in self.scheduling.losses() {
            losses = losses.plus(cause, count);
        }
        if self.selection.filters().take_every_call() {
            losses = losses.plus(Counter::SchedulingUncalled, self.uncalled());
        }
        self.recorder.losses(now_ns, self.driver.add_losses(losses))
    }

    pub(super) fn call_returned(&mut self, call: &Call, text: &[u8]) -> Result<(), TracerError> {
        self.settle_changes(call.end_ns)?;
        if !self.is_selected(call.tgid) {
            return Ok(());
        }
        self.meet(call.tgid);
        if self.leave_unread(call, text)? { Ok(()) } else { self.named(call, text) }
    }

    /// Records a call whose kernel has a name, if it ever gets one.
    pub(super) fn named(&mut self, call: &Call, text: &[u8]) -> Result<(), TracerError> {
        match self.resolver.returned(&mut self.processes, &mut self.known, call, text) {
            Some(resolved) if self.is_announced(&resolved) => Ok(()),
            Some(mut resolved) => {
                self.scheduling.called(&mut resolved);
                self.record(resolved, call.chain)
            }
            None => Ok(()),
        }
    }

    /// Whether a call is not the program's, or was seen before, where the program made it: the shim has it made later, or did not
    /// defer it after all. What such a call names is known by now.
    pub(super) fn is_announced(&mut self, call: &RuntimeCall) -> bool {
        if !call.is_of_shim() {
            return call.was_not_deferred();
        }
        if !call.is_work() {
            return true;
        }
        // It is shown where it is made, if its announcement was not seen.
        let caller = self.processes.locate(call.pid, call.caller.address, call.begin_ns);
        let shim = caller.and_then(|caller| caller.mapping.file);
        shim.is_some_and(|shim| self.runtimes.announces(shim, call.begin_ns))
    }

    pub(super) fn meet(&mut self, pid: u32) {
        if self.known.called(pid) {
            self.scheduling.meet(pid);
        }
    }

    /// Whether records of a process are wanted: the programs may report more than was requested.
    pub(super) fn is_selected(&self, pid: u32) -> bool {
        !self.audience.selects() || self.audience.includes(pid, &self.maps)
    }

    /// Passes a call on, at once or when its chain is known.
    pub(super) fn record(&mut self, mut call: RuntimeCall, chain: u64) -> Result<(), TracerError> {
        let queues = &mut self.known.memory(call.pid).queues;
        let settled = self.queues.call_returned(&mut call, queues);
        self.record_driver_calls(settled)?;
        if self.selection.dismisses(&call) {
            return Ok(());
        }
        let source = Source {
            chains: &mut self.chains,
            processes: &mut self.processes,
            names: &mut self.resolver.names,
        };
        match self.chainless.take(source, call, chain) {
            Some(call) => self.pass_on(call),
            None => Ok(()),
        }
    }

    /// Passes on the calls whose chains have become known, or all.
    pub(super) fn release(&mut self, all: bool) -> Result<(), TracerError> {
        if self.chainless.is_empty() {
            return Ok(());
        }
        let source = Source {
            chains: &mut self.chains,
            processes: &mut self.processes,
            names: &mut self.resolver.names,
        };
        for call in self.chainless.release(source, all) {
            self.pass_on(call)?;
        }
        Ok(())
    }

    /// Passes a call on, at once or when it is known how its process treats it.
    fn pass_on(&mut self, call: RuntimeCall) -> Result<(), TracerError> {
        match self.scheduling.hold(call) {
            Some(call) => self.write(&call),
            None => Ok(()),
        }
    }

    /// Records a call that the filters let through.
    pub(super) fn write(&mut self, call: &RuntimeCall) -> Result<(), TracerError> {
        let is_written = self.selection.takes(call);
        if is_written {
            self.recorder.call(&mut self.processes, call)?;
        }
        if let Some(followed) = &call.followed {
            followed.settle(&call.origin, is_written);
        }
        Ok(())
    }

    /// Executions without their calls, of processes whose calls were requested: for other processes their absence is
    /// intended.
    fn uncalled(&self) -> u64 {
        self.scheduling.uncalled(|pid| self.audience.asks_for(pid))
    }

    pub(super) fn left_out(&self) -> LeftOut {
        let mut left_out = self.selection.left_out();
        left_out.add(Reason::Short, self.maps.left_out(Filter::Short));
        left_out.add(Reason::Unsampled, self.maps.left_out(Filter::Unsampled));
        if !self.selection.filters().take_every_call() {
            left_out.add(Reason::Uncalled, self.uncalled());
        }
        left_out
    }
}
