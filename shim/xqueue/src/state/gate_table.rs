//! The gates of this process: one for each device and each runtime through which it uses the device. A runtime knows only memory
//! that was registered with it.

use crate::device::Device;
use crate::gate_page::GatePage;
use crate::ids::{ClaimId, RuntimeId};

pub(crate) struct GateTable<D: Device>(Vec<DeviceGate<D::Gate>>);

/// The gate of one runtime's streams on one device.
pub(super) struct DeviceGate<G> {
    pub(super) device: u64,
    pub(super) runtime: RuntimeId,
    pub(super) stage: Stage<G>,
}

pub(super) enum Stage<G> {
    /// None was made yet.
    Untried,
    /// The runtime has none, has refused it, or it must not be used.
    None,
    There(Gate<G>),
}

#[derive(Clone, Copy)]
pub(super) struct Gate<G> {
    /// As the device knows it.
    pub(super) on_device: G,
    /// The claim for which it is closed: while that is preempted.
    pub(super) claim: ClaimId,
    pub(super) is_open: bool,
    pub(super) shared: Option<Shared>,
}

/// Where the arbiter closes a gate, too.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub(super) page: &'static GatePage,
    /// The arbiter's last closing that was accounted for as time that commands waited there, on the page's clock.
    pub(super) closing_noted: u64,
}

impl<D: Device> GateTable<D> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Streams of this runtime use a device.
    pub(super) fn add(&mut self, device: u64, runtime: RuntimeId) {
        if self.position(device, runtime).is_none() {
            self.0.push(DeviceGate { device, runtime, stage: Stage::Untried });
        }
    }

    pub(super) fn find(&self, device: u64, runtime: RuntimeId) -> Option<&DeviceGate<D::Gate>> {
        self.position(device, runtime).map(|index| &self.0[index])
    }

    pub(super) fn position(&self, device: u64, runtime: RuntimeId) -> Option<usize> {
        self.0.iter().position(|gate| gate.device == device && gate.runtime == runtime)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &DeviceGate<D::Gate>> {
        self.0.iter()
    }

    pub(super) fn of_device(&self, device: u64) -> impl Iterator<Item = &DeviceGate<D::Gate>> {
        self.0.iter().filter(move |gate| gate.device == device)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> &mut DeviceGate<D::Gate> {
        &mut self.0[index]
    }

    pub(super) fn at(&self, index: usize) -> &DeviceGate<D::Gate> {
        &self.0[index]
    }
}

impl<G> DeviceGate<G> {
    pub(super) fn there(&self) -> Option<&Gate<G>> {
        match &self.stage {
            Stage::There(gate) => Some(gate),
            Stage::Untried | Stage::None => None,
        }
    }
}
