//! A device: one queue of kernels for each client, one kernel at a time, the queues in turn. A kernel with a gate before it does not
//! start while that is closed.

use std::collections::VecDeque;

use super::client::Kernel;
use super::recorded::Gates;
use super::{Act, Happening, Simulation};
use crate::Nanos;

/// A device.
#[derive(Debug)]
pub(super) struct Device {
    /// By client.
    queues: Vec<VecDeque<Launched>>,
    /// What runs, of which client and since when.
    running: Option<(usize, Launched, Nanos)>,
    last: usize,
}

/// A kernel that was launched.
#[derive(Clone, Copy, Debug)]
struct Launched {
    kernel: Kernel,
    at: Nanos,
    /// When the device has it.
    reaches: Nanos,
    is_gated: bool,
}

impl Device {
    pub(super) fn new(clients: usize) -> Self {
        Self { queues: vec![VecDeque::new(); clients], running: None, last: 0 }
    }

    /// The first in turn that can start now. `is_open` says of a client whether its gate is.
    fn next(&self, now: Nanos, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.queues.len();
        let mut places = (1..=count).map(|step| (self.last + step) % count);
        let can_start = |client: &usize| {
            let first = self.queues[*client].front();
            first.is_some_and(|first| first.reaches <= now && (!first.is_gated || is_open(*client)))
        };
        places.find(can_start)
    }
}

impl Simulation {
    /// A client puts a kernel on its queue.
    pub(super) fn submit(&mut self, device: usize, client: usize, kernel: Kernel, is_gated: bool) {
        let (at, reaches) = (self.now, self.now + kernel.launch);
        self.devices[device].queues[client].push_back(Launched { kernel, at, reaches, is_gated });
        if reaches > at {
            self.plan(reaches, Happening::Starts(device));
        } else {
            self.start(device);
        }
    }

    pub(super) fn kernel_ends(&mut self, device: usize) {
        if let Some((client, launched, began)) = self.devices[device].running.take() {
            self.clients[client].completed.push_back(self.now);
            self.trace.act(self.now, client, Act::Ended);
            if !self.clients[client].limited {
                // Only the application waits for it, by means of its own.
                self.make_appointment(client, self.now + self.world.delays.notice);
            }
            if let Some(submission) = launched.kernel.submission {
                self.executed(client, submission, [launched.at, began]);
            }
        }
        self.start(device);
    }

    /// Starts what can start, if nothing runs.
    pub(super) fn start(&mut self, index: usize) {
        if self.devices[index].running.is_some() {
            return;
        }
        let Some(client) = self.devices[index].next(self.now, |client| self.is_allowed(client)) else {
            return;
        };
        let device = &mut self.devices[index];
        let Some(launched) = device.queues[client].pop_front() else { return };
        device.running = Some((client, launched, self.now));
        device.last = client;
        self.trace.act(self.now, client, Act::Started);
        self.plan_in(launched.kernel.time, Happening::KernelEnds(index));
    }

    /// Whether the masks let a client launch.
    pub(super) fn is_allowed(&self, client: usize) -> bool {
        let client = &self.clients[client];
        client.level.is_some_and(|level| self.masks[client.device()].allows(level))
    }

    /// Masks have changed: gates are closed at once, and the device notices soon which are open.
    pub(super) fn set_gates(&mut self, device: usize) {
        let has_gate = |plan: &super::Plan| {
            plan.gates == Gates::Close && usize::from(plan.attributes.device.0) == device
        };
        let gated: Vec<_> =
            (0..self.clients.len()).filter(|index| has_gate(&self.clients[*index].plan)).collect();
        for &index in &gated {
            let is_open = self.is_allowed(index);
            self.clients[index].flight.set_gate(self.now, is_open);
        }
        if !gated.is_empty() {
            self.plan_in(self.world.delays.gate, Happening::Starts(device));
        }
    }
}
