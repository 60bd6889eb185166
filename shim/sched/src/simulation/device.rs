//! A device: one queue of kernels for each client, one kernel at a time, the queues in turn.

use std::collections::VecDeque;

use super::{Act, Happening, Simulation};
use crate::Nanos;

/// A device.
#[derive(Debug)]
pub(super) struct Device {
    /// By client.
    queues: Vec<VecDeque<Nanos>>,
    /// The client whose kernel runs.
    running: Option<usize>,
    last: usize,
}

impl Device {
    pub(super) fn new(clients: usize) -> Self {
        Self { queues: vec![VecDeque::new(); clients], running: None, last: 0 }
    }

    fn next(&self) -> Option<usize> {
        let count = self.queues.len();
        let places = (1..=count).map(|step| (self.last + step) % count);
        places.into_iter().find(|client| !self.queues[*client].is_empty())
    }
}

impl Simulation {
    /// A client puts a kernel on its queue.
    pub(super) fn submit(&mut self, device: usize, client: usize, takes: Nanos) {
        self.devices[device].queues[client].push_back(takes);
        if self.devices[device].running.is_none() {
            self.start(device);
        }
    }

    pub(super) fn kernel_ends(&mut self, device: usize) {
        if let Some(client) = self.devices[device].running.take() {
            self.clients[client].completed += 1;
            self.trace.act(self.now, client, Act::Ended);
            if !self.clients[client].limited {
                // Only the application waits for it, by means of its own.
                self.make_appointment(client, self.now + self.world.delays.notice);
            }
        }
        self.start(device);
    }

    fn start(&mut self, index: usize) {
        let device = &mut self.devices[index];
        let Some(client) = device.next() else { return };
        let Some(takes) = device.queues[client].pop_front() else { return };
        device.running = Some(client);
        device.last = client;
        self.trace.act(self.now, client, Act::Started);
        self.plan_in(takes, Happening::KernelEnds(index));
    }
}
