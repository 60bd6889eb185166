//! What processes do besides calling a GPU runtime, as the side-band reports it: runtimes that they map are probed, and their end
//! cuts off calls in progress.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use xsched_abi::{CallKey, Opened, Pending, Runtime};
use xsched_bpf::Record;
use xsched_symbols::{Change, Mapping, now_ns};

use super::Session;
use super::audience::Targets;
use super::guardian::go_on;
use super::runtimes::Runtimes;
use crate::driver::DriverCall;
use crate::error::{RuntimeError, TracerError};

impl Session {
    /// A process opens a file that may be a runtime: usually it can be probed before it is mapped.
    pub(super) fn opening(&mut self, opened: &Opened) {
        match self.open_early(opened) {
            Ok(_) => {}
            Err(error) if error.is_silent() => self.slow.opens(opened),
            // It may not be a library; if it is mapped later, that is reported.
            Err(error) => tracing::debug!("{error}"),
        }
    }

    /// The same. True if the file is probed.
    pub(super) fn open_early(&mut self, opened: &Opened) -> Result<bool, RuntimeError> {
        let len = opened.path.iter().position(|&byte| byte == 0).unwrap_or(opened.path.len());
        let path = Path::new(OsStr::from_bytes(&opened.path[..len]));
        let is_probed = self.runtimes.opening(opened.tgid, path)?;
        // A relative path leads elsewhere from another working folder.
        if is_probed && path.is_absolute() {
            self.maps.know(opened.hash);
        }
        Ok(is_probed)
    }

    /// Reads the side-band; new runtimes are probed at once. Processes that are stopped in their loader continue after
    /// that.
    ///
    /// Everything that was mapped before the returned time is known.
    pub(super) fn take_changes(&mut self, records: &[Record]) -> u64 {
        let seen_ns = now_ns();
        let mut stopped = HashSet::new();
        for record in records {
            if let Record::LoaderStop(stop) = record {
                stopped.insert(stop.tgid);
                self.late.stopped(stop.tgid, stop.time_ns);
            }
        }
        let mut changes = Vec::new();
        let (processes, maps, audience) = (&mut self.processes, &self.maps, &mut self.audience);
        self.sideband.drain(|event| {
            if audience.concerns(&event, maps) {
                let time_ns = event.time_ns;
                changes.extend(processes.apply(&event).map(|change| (time_ns, change)));
            }
        });
        for (time_ns, change) in changes {
            let late = match &change {
                Change::Mapped { pid, mapping } => self.mapped(*pid, mapping, time_ns).then_some(*pid),
                Change::Found { pid } => self.probe_mapped(*pid, time_ns).then_some(*pid),
                Change::Lost { .. } => {
                    self.lost.note();
                    None
                }
                _ => None,
            };
            if let Some(pid) = late {
                let is_to_stop = self.is_to_stop(pid, time_ns);
                self.late.mapped(pid, time_ns, is_to_stop);
            }
            self.chains.changed(&change);
            self.lives.changed(time_ns, change);
        }
        let now = Instant::now();
        if self.lost.take_due(now) {
            self.catch_up();
            self.lost.made_up(now.elapsed());
        }
        for pid in self.ask_slow() {
            self.let_go_on(pid, seen_ns);
        }
        for pid in stopped {
            // The side-band has reported its mappings, unless it lost something.
            let told = self.processes.process(pid).is_some_and(|process| process.runtimes().next().is_some());
            if !told && self.processes.scan(pid).is_ok() {
                self.probe_mapped(pid, 0);
            }
            if !self.slow.keeps_stopped(pid) {
                self.let_go_on(pid, seen_ns);
            }
        }
        seen_ns
    }

    /// A process that is stopped in its loader goes on: its runtimes are probed.
    fn let_go_on(&mut self, pid: u32, seen_ns: u64) {
        if let Some(process) = self.processes.process(pid) {
            self.chains.secure(process);
            self.chains.introduce(process, seen_ns);
        }
        go_on(pid);
    }

    /// Probes the runtimes that a process has mapped; returns whether it may have made calls before.
    pub(super) fn probe_mapped(&mut self, pid: u32, mapped_ns: u64) -> bool {
        let Some(process) = self.processes.process(pid) else { return false };
        let mappings: Vec<_> = process.mappings().cloned().collect();
        mappings.iter().fold(false, |late, mapping| self.mapped(pid, mapping, mapped_ns) | late)
    }

    /// Returns whether it may have made unrecorded calls to a runtime that is or was mapped.
    fn mapped(&mut self, pid: u32, mapping: &Arc<Mapping>, mapped_ns: u64) -> bool {
        if !Runtimes::concerns(mapping) || !self.audience.includes(pid, &self.maps) {
            return false;
        }
        let runtime = mapping.runtime();
        // NVIDIA's driver has calls of its own, which are not recorded.
        if runtime == Some(Runtime::Hip) {
            self.driver.uses(pid, &mut self.known, &mut self.runtimes);
        }
        if runtime.is_some()
            && let Some(process) = self.processes.process(pid)
        {
            self.chains.expect(process);
        }
        self.runtimes.mapped(pid, mapping, mapped_ns).unwrap_or_else(|error| {
            if error.is_silent() {
                self.slow.maps(pid, mapping, mapped_ns);
                return false;
            }
            tracing::warn!("process {pid} is not recorded: {error}");
            // That it stops in its loader does not change that.
            let is_unopened = matches!(error, RuntimeError::Open { .. });
            self.late.add(u64::from(is_unopened && runtime.is_some()));
            false
        })
    }

    /// Counts the processes that should have stopped before a time, and have not: the programs mistook their runtime
    /// for an earlier, probed one at the same path.
    pub(super) fn count_unstopped(&mut self, before_ns: u64) {
        if self.late.count_unstopped(before_ns) > 0 {
            self.maps.know_no_path();
        }
    }

    /// Whether a process that maps a runtime at `time_ns` will stop before it runs any of its code.
    pub(super) fn is_to_stop(&self, pid: u32, time_ns: u64) -> bool {
        self.maps.may_stop(pid)
            && self.processes.find(pid, time_ns).is_some_and(|process| self.runtimes.stops(process, time_ns))
    }

    /// The side-band has lost events: scans the current state.
    fn catch_up(&mut self) {
        // Only what is probed from here on may be too late.
        let before_ns = now_ns();
        match self.targets {
            Targets::Process(pid) => drop(self.processes.scan(pid.get())),
            Targets::Everybody | Targets::Children => drop(self.processes.scan_running()),
        }
        // Ends of processes may be among the lost events.
        let has_ended =
            |pid: u32| self.processes.process(pid).is_none_or(|process| process.ended_ns().is_some());
        let present = self.known.present().chain(self.audience.descendants());
        let ended: BTreeSet<_> = present.filter(|&pid| has_ended(pid)).collect();
        for pid in ended {
            self.lives.changed(before_ns, Change::Exited { pid });
        }
        let running: Vec<_> = self.processes.running().map(xsched_symbols::Process::pid).collect();
        for pid in running {
            let is_late = self.probe_mapped(pid, before_ns);
            self.late.add(u64::from(is_late));
        }
    }

    /// Applies changes up to `time_ns` to what later calls mean, or has them wait for earlier calls that wait.
    pub(super) fn settle_changes(&mut self, time_ns: u64) -> Result<(), TracerError> {
        while let Some((change_ns, change)) = self.lives.take_until(time_ns) {
            let cut = match change {
                Change::Exited { pid } | Change::Executed { pid } if self.known.can_be_calling(pid) => {
                    Some(self.cut_off(Some(change_ns), |tgid| tgid == pid))
                }
                _ => None,
            };
            match change {
                Change::Forked { pid, parent } => self.known.forked(parent, pid),
                Change::Exited { pid } => {
                    self.known.ended(pid, now_ns());
                    self.maps.unwatch(pid);
                    self.audience.ended(pid);
                }
                _ => {}
            }
            if let Some((change, cut)) = self.unread.leave(change, cut) {
                self.settle(&change, cut)?;
            }
        }
        Ok(())
    }

    /// Applies a change that comes after everything that its process has called.
    pub(super) fn settle(&mut self, change: &Change, cut: Option<Cut>) -> Result<(), TracerError> {
        if let Some(cut) = cut {
            self.record_cut(cut)?;
            if let Change::Exited { pid } | Change::Executed { pid } = *change {
                let settled = self.queues.forget(pid);
                self.record_driver_calls(settled)?;
            }
        }
        self.resolver.names.changed(change);
        self.known.changed(change);
        self.recorder.changed(change);
        Ok(())
    }

    /// Records calls that have not returned.
    pub(super) fn record_pending(&mut self, whose: impl Fn(u32) -> bool) -> Result<(), TracerError> {
        let cut = self.cut_off(None, whose);
        self.record_cut(cut)
    }

    /// Takes the calls that have not returned; they end at `cut_ns` where something ended them.
    fn cut_off(&mut self, cut_ns: Option<u64>, whose: impl Fn(u32) -> bool) -> Cut {
        let driver_calls = self.driver.take_pending(&whose);
        let own = self.own_calls.in_progress(&whose);
        let mut calls = self.maps.take_pending(whose);
        calls.extend(own);
        calls.retain(|(key, _)| self.is_selected(key.tgid));
        Cut { at_ns: cut_ns, driver_calls, calls }
    }

    fn record_cut(&mut self, cut: Cut) -> Result<(), TracerError> {
        let Cut { at_ns: cut_ns, mut driver_calls, calls } = cut;
        for call in &mut driver_calls {
            call.cut_ns = cut_ns;
        }
        self.record_driver_calls(driver_calls)?;
        for (key, pending) in calls {
            if let Some(mut call) =
                self.resolver.in_progress(&mut self.processes, &mut self.known, &key, &pending)
                && !self.is_announced(&call)
            {
                call.cut_ns = cut_ns;
                self.record(call, pending.chain)?;
            }
        }
        Ok(())
    }
}

/// Calls that had not returned at some time.
pub(super) struct Cut {
    /// When something ended them; none if they go on.
    at_ns: Option<u64>,
    driver_calls: Vec<DriverCall>,
    calls: Vec<(CallKey, Pending)>,
}
