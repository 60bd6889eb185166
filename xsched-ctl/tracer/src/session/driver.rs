//! Calls to the kernel driver during a session: when the programs are attached, and how their records are handled.
//!
//! Probes at the driver's own functions cost other processes nothing, so they are attached from the beginning. The
//! tracepoints of ioctl(2) slow down every ioctl of the machine, so they are attached only while a watched process uses
//! HIP or has a device open. A process that opens a device before that is stopped until they are attached, if it may be
//! stopped. Otherwise it is counted.

use std::sync::Arc;

use xsched_abi::{Counter, Device, DeviceOpened, DriverConfig, Ioctl, PendingIoctl};
use xsched_bpf::{BpfError, Losses};
use zerocopy::FromZeros as _;

use super::Session;
use super::known::Known;
use super::runtimes::Runtimes;
use crate::bpf;
use crate::bpf::ExtraDevice;
use crate::bpf::{DriverLinks, DriverMaps, FunctionPrograms, KernelTypes, Programs};
use crate::driver::{Devices, DriverCall, Listed};
use crate::error::TracerError;

pub(super) struct Driver {
    way: Way,
    maps: DriverMaps,
    config: DriverConfig,
    devices: Devices,
    links: Option<DriverLinks>,
    late: u64,
    unknown: u64,
}

/// How calls are recorded.
enum Way {
    Off,
    /// At the driver's own functions.
    Functions(FunctionPrograms),
    /// At ioctl(2), while a process uses the driver.
    WhileUsed,
    /// At ioctl(2), all the time.
    Always,
}

impl Driver {
    /// Loads what can be loaded. Must run before the other maps are taken out of `programs`.
    pub(super) fn load(
        programs: &mut Programs,
        wanted: bpf::Driver,
        extra: &[ExtraDevice],
    ) -> Result<Self, TracerError> {
        let mut devices = Devices::of_this_machine();
        for device in extra {
            devices.add(device.number, device.device, &device.path);
        }
        let (way, config) = if wanted == bpf::Driver::Off {
            (Way::Off, DriverConfig::default())
        } else if wanted == bpf::Driver::Auto && devices.is_empty() {
            (Way::WhileUsed, DriverConfig::default())
        } else {
            choose(programs, wanted)?
        };
        let mut maps = DriverMaps::take(programs)?;
        for (number, listed) in devices.iter() {
            maps.list(number, listed.device)?;
        }
        Ok(Self { way, maps, config, devices, links: None, late: 0, unknown: 0 })
    }

    /// Attaches, or waits for a process to use the driver.
    pub(super) fn start(&mut self, runtimes: &mut Runtimes) -> Result<(), TracerError> {
        self.maps.configure(self.config)?;
        match &self.way {
            Way::Functions(programs) => self.links = Some(programs.attach()?),
            Way::Always => self.links = Some(runtimes.attach_ioctl()?),
            Way::WhileUsed => self.report_opening(true)?,
            Way::Off => {}
        }
        Ok(())
    }

    /// Whether running processes must be checked for their use of the driver ([`uses`](Self::uses)).
    pub(super) fn wants_users(&self) -> bool {
        matches!(self.way, Way::WhileUsed) && !self.devices.is_empty()
    }

    /// A watched process uses HIP.
    pub(super) fn uses(&mut self, pid: u32, known: &mut Known, runtimes: &mut Runtimes) {
        if !self.wants_users() {
            return;
        }
        known.uses_driver(pid);
        if self.links.is_some() {
            return;
        }
        match self.attach(runtimes) {
            Ok(()) => tracing::debug!(pid, "ioctls are recorded from now on"),
            Err(error) => {
                tracing::warn!("driver calls are not recorded: {error}");
                self.way = Way::Off;
            }
        }
    }

    /// Checks whether a running process has a device open.
    pub(super) fn look_at(&mut self, pid: u32, known: &mut Known, runtimes: &mut Runtimes) {
        if self.wants_users() && self.devices.are_used_by(pid) {
            self.uses(pid, known, runtimes);
        }
    }

    fn attach(&mut self, runtimes: &mut Runtimes) -> Result<(), BpfError> {
        self.links = Some(runtimes.attach_ioctl()?);
        self.report_opening(false)
    }

    fn report_opening(&mut self, report: bool) -> Result<(), BpfError> {
        self.config.report_opening = u32::from(report && !self.devices.is_empty());
        self.maps.configure(self.config)
    }

    /// A watched process opens a device. If it is stopped, the caller resumes it.
    pub(super) fn opened(&mut self, opened: &DeviceOpened, known: &mut Known, runtimes: &mut Runtimes) {
        let was_attached = self.links.is_some();
        self.uses(opened.tgid, known, runtimes);
        self.late += u64::from(!was_attached && self.links.is_some() && opened.is_stopped == 0);
    }

    /// Detaches from ioctl(2) when no process uses the driver any more.
    pub(super) fn tidy(&mut self, known: &Known) -> Result<(), BpfError> {
        if matches!(self.way, Way::WhileUsed) && self.links.is_some() && !known.is_driver_used() {
            // Reports are enabled first, so that no opening is missed in between.
            self.report_opening(true)?;
            self.links = None;
            tracing::debug!("ioctls are not recorded any more: no process uses the driver");
        }
        Ok(())
    }

    pub(super) fn detach(&mut self) {
        self.links = None;
        self.way = Way::Off;
    }

    /// A call that has returned. None if it was not on one of the driver's devices.
    pub(super) fn returned(&mut self, ioctl: &Ioctl) -> Option<DriverCall> {
        let (device, path) = self.identify(&ioctl.entered)?;
        Some(DriverCall::new(ioctl, device, path))
    }

    /// Calls in progress of the processes that `whose` selects.
    pub(super) fn take_pending(&mut self, whose: impl FnMut(u32) -> bool) -> Vec<DriverCall> {
        let pending = self.maps.take_pending(whose);
        let in_progress = |entered: PendingIoctl| {
            let (device, path) = self.identify(&entered)?;
            let mut ioctl = Ioctl::new_zeroed();
            ioctl.entered = entered;
            let mut call = DriverCall::new(&ioctl, device, path);
            call.end_ns = None;
            Some(call)
        };
        pending.into_iter().filter_map(in_progress).collect()
    }

    /// The device behind the descriptor of a call.
    fn identify(&mut self, entered: &PendingIoctl) -> Option<(Device, Option<Arc<str>>)> {
        let device = Device::from_u32(entered.device)?;
        if device != Device::Untold {
            return Some((device, self.devices.get(entered.rdev).map(|listed| listed.path.clone())));
        }
        let Ok(listed) = self.devices.behind(entered.tgid, entered.fd) else {
            // The descriptor's device is unknown. Without the driver loaded it was not the driver's.
            self.unknown += u64::from(!self.devices.is_empty());
            return None;
        };
        listed.map(|Listed { device, path }| (*device, Some(path.clone())))
    }

    /// Adds the losses that were counted here.
    pub(super) fn add_losses(&self, losses: Losses) -> Losses {
        losses.plus(Counter::IoctlLate, self.late).plus(Counter::IoctlDeviceUnknown, self.unknown)
    }
}

fn choose(programs: &Programs, wanted: bpf::Driver) -> Result<(Way, DriverConfig), TracerError> {
    let types = KernelTypes::read();
    // Without kernel types, user space looks at the descriptors.
    let config = types.as_ref().ok().and_then(|types| types.descriptor_offsets().ok()).unwrap_or_default();
    let way = match wanted {
        bpf::Driver::Off => Way::Off,
        bpf::Driver::Tracepoint => Way::Always,
        bpf::Driver::Fentry => {
            let types = types.map_err(|error| TracerError::DriverFunctions(error.into()))?;
            Way::Functions(FunctionPrograms::load(programs, &types).map_err(TracerError::DriverFunctions)?)
        }
        bpf::Driver::Auto => {
            let functions = types.map_err(Into::into).and_then(|types| {
                let functions = FunctionPrograms::load(programs, &types)?;
                // Some kernels load programs that they then refuse to attach.
                functions.attach()?;
                Ok::<_, bpf::FunctionsError>(functions)
            });
            functions.map_or_else(
                |error| {
                    tracing::debug!("driver calls are recorded at ioctl(2): {error}");
                    Way::WhileUsed
                },
                Way::Functions,
            )
        }
    };
    Ok((way, config))
}

impl Session {
    pub(super) fn driver_returned(&mut self, ioctl: &Ioctl) -> Result<(), TracerError> {
        self.settle_changes(ioctl.end_ns)?;
        if !self.is_selected(ioctl.entered.tgid) {
            return Ok(());
        }
        let Some(call) = self.driver.returned(ioctl) else { return Ok(()) };
        self.meet(call.pid);
        let queues = &mut self.known.memory(call.pid).queues;
        let call = self.queues.driver_returned(call, queues);
        self.record_driver_calls(call)
    }

    /// Records calls to the driver. Filters are for HIP functions, so they do not apply.
    pub(super) fn record_driver_calls(
        &mut self,
        calls: impl IntoIterator<Item = DriverCall>,
    ) -> Result<(), TracerError> {
        calls.into_iter().try_for_each(|call| self.recorder.driver_call(&mut self.processes, &call))
    }

    /// Records queues of threads that are no longer in a HIP call.
    pub(super) fn settle_queues(&mut self) -> Result<(), TracerError> {
        // What was read, or waits for names, may be the call around a creation.
        if !self.queues.has_kept() || self.input.has_more() || !self.unread.is_empty() {
            return Ok(());
        }
        let mut in_calls = self.maps.threads_in_calls();
        in_calls.extend(self.own_calls.in_progress(|_| true).iter().map(|(key, _)| key.tid));
        let settled = self.queues.give_up(|tid| in_calls.contains(&tid));
        self.record_driver_calls(settled)
    }
}
