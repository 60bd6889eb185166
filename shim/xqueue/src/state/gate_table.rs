//! The gates of this process: one for each device and each runtime copy that uses it. A runtime knows only memory that was
//! registered with it.

use xsched_sched::Nanos;

use crate::device::Device;
use crate::gate_page::GatePage;
use crate::ids::{ClaimId, RuntimeId};

pub(crate) struct GateTable<D: Device>(Vec<DeviceGate<D>>);

/// The gate of one runtime's streams on one device.
pub(super) struct DeviceGate<D: Device> {
    pub(super) device: u64,
    pub(super) runtime: RuntimeId,
    pub(super) stage: Stage<D>,
    /// The device does not see what the arbiter writes into a page, so the gate must not be in one.
    pub(super) refuses_pages: bool,
}

pub(super) enum Stage<D: Device> {
    /// There is no gate yet, and none is being made.
    Untried,
    Tried(Attempt<D>),
    /// There is none for good: the runtime has no gates, refused this one, or must not use one.
    None,
    There(Gate<D::Gate>),
}

/// A gate whose trial is not over.
pub(super) struct Attempt<D: Device> {
    /// The trial. None while the watcher looks at it, without the lock.
    pub(super) trial: Option<D::Trial>,
    pub(super) page: Option<&'static GatePage>,
    /// The claim for which the gate will be closed. None: the gate will not be used, and only its trial is brought to an end.
    pub(super) claim: Option<ClaimId>,
    /// When to look at the trial next.
    pub(super) look_at: Nanos,
}

#[derive(Clone, Copy)]
pub(super) struct Gate<G> {
    /// The gate's address for the device.
    pub(super) on_device: G,
    /// The claim that the gate belongs to: the gate is closed while that claim is preempted.
    pub(super) claim: ClaimId,
    pub(super) is_open: bool,
    pub(super) shared: Option<Shared>,
}

/// The page in which the arbiter closes a gate, too.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub(super) page: &'static GatePage,
    /// The arbiter's last closing that was accounted for as waiting time of commands, in the page's clock.
    pub(super) closing_noted: u64,
}

impl<D: Device> GateTable<D> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a gate to make for a runtime's streams on a device.
    pub(super) fn add(&mut self, device: u64, runtime: RuntimeId) {
        if self.position(device, runtime).is_none() {
            self.0.push(DeviceGate { device, runtime, stage: Stage::Untried, refuses_pages: false });
        }
    }

    /// Removes the gates of a runtime that has no streams any more.
    pub(super) fn remove(&mut self, runtime: RuntimeId) {
        self.0.retain(|gate| gate.runtime != runtime);
    }

    pub(super) fn find(&self, device: u64, runtime: RuntimeId) -> Option<&DeviceGate<D>> {
        self.position(device, runtime).map(|index| &self.0[index])
    }

    pub(super) fn position(&self, device: u64, runtime: RuntimeId) -> Option<usize> {
        self.0.iter().position(|gate| gate.device == device && gate.runtime == runtime)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &DeviceGate<D>> {
        self.0.iter()
    }

    pub(super) fn of_device(&self, device: u64) -> impl Iterator<Item = &DeviceGate<D>> {
        self.0.iter().filter(move |gate| gate.device == device)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> &mut DeviceGate<D> {
        &mut self.0[index]
    }

    pub(super) fn at(&self, index: usize) -> &DeviceGate<D> {
        &self.0[index]
    }
}

impl<D: Device> DeviceGate<D> {
    pub(super) fn there(&self) -> Option<&Gate<D::Gate>> {
        match &self.stage {
            Stage::There(gate) => Some(gate),
            Stage::Untried | Stage::Tried(_) | Stage::None => None,
        }
    }

    /// The claim that the gate belongs to, or will when its trial is over.
    pub(super) fn claim(&self) -> Option<ClaimId> {
        match &self.stage {
            Stage::There(gate) => Some(gate.claim),
            Stage::Tried(attempt) => attempt.claim,
            Stage::Untried | Stage::None => None,
        }
    }
}
