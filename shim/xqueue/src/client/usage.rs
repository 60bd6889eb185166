//! Usage packets: what claims have used, and the libraries that used it.

use std::collections::BTreeMap;

use xsched_protocol::wire::{ORIGIN_TIMES_MAX, OriginName, OriginTime, OriginUsage, PacketKind, Usage};

use crate::claim;
use crate::client::connection::Connection;
use crate::client::host::{Host, Library};
use crate::client::link::Slot;
use crate::device::Device;
use crate::ids::ClaimId;
use crate::origins::{Origin, OriginTimes};
use crate::xqueues::XQueues;

/// What was sent of a claim's usage.
#[derive(Debug, Default)]
pub(super) struct Account {
    usage: claim::Usage,
    /// Device time by the libraries' numbers on the wire.
    by_origin: BTreeMap<u32, u64>,
}

/// The libraries whose names were sent.
#[derive(Debug, Default)]
pub(super) struct Names {
    sent: usize,
    /// Each one's number on the wire.
    numbers: Vec<u32>,
}

impl Account {
    /// Whether the claim has used nothing since the last packets.
    pub(super) fn is_sent<D: Device>(&self, queues: &XQueues<D>, claim: ClaimId) -> bool {
        queues.usage(claim) == self.usage
    }

    /// Sends what a claim has used, if anything since the last packets. If the controller is too far behind to take a packet, the
    /// next one says it again.
    pub(super) fn send<D: Device>(
        &mut self,
        connection: &Connection,
        host: &dyn Host,
        names: &mut Names,
        queues: &XQueues<D>,
        claim: ClaimId,
        slot: Slot,
    ) {
        let (usage, times) = queues.usage_by_origin(claim);
        if usage == self.usage {
            return;
        }
        let packet = Usage {
            kind: PacketKind::Usage as u32,
            slot: slot.index,
            generation: slot.generation,
            reserved: 0,
            device_ns: usage.device_time.0,
            launched: usage.launched,
            deferred: usage.deferred,
            suspended_ns: usage.suspended.0,
        };
        if connection.send(&packet).is_ok()
            && names.send(connection, host)
            && self.send_parts(connection, names, slot, &times)
        {
            self.usage = usage;
        }
    }

    /// Sends the parts that have changed; whether the controller has taken all of them.
    fn send_parts(
        &mut self,
        connection: &Connection,
        names: &Names,
        slot: Slot,
        times: &OriginTimes,
    ) -> bool {
        let mut by_origin = BTreeMap::new();
        for origin in times.origins() {
            *by_origin.entry(names.number(origin)).or_default() += times.of(origin).0;
        }
        let changed =
            by_origin.iter().filter(|&(origin, time)| self.by_origin.get(origin).unwrap_or(&0) != time);
        let parts: Vec<_> =
            changed.map(|(&origin, &device_ns)| OriginTime { origin, reserved: 0, device_ns }).collect();
        let mut packets =
            parts.chunks(ORIGIN_TIMES_MAX).map(|parts| OriginUsage::new(slot.index, slot.generation, parts));
        let is_sent = packets.all(|packet| connection.send(&packet).is_ok());
        if is_sent {
            self.by_origin = by_origin;
        }
        is_sent
    }
}

impl Names {
    /// Sends the names of libraries that were not sent yet; whether the controller has all of them.
    fn send(&mut self, connection: &Connection, host: &dyn Host) -> bool {
        for (Origin(number), library) in host.origins().into_iter().skip(self.sent) {
            let number = match library {
                Library::Controllers(number) => number,
                Library::Own(name) => {
                    if connection.send(&OriginName::new(number.into(), name.as_bytes())).is_err() {
                        return false;
                    }
                    u32::from(number) | OriginTime::OWN
                }
            };
            self.numbers.push(number);
            self.sent += 1;
        }
        true
    }

    fn number(&self, origin: Origin) -> u32 {
        match origin {
            Origin::UNKNOWN => OriginTime::UNKNOWN,
            Origin::OTHERS => OriginTime::OTHERS,
            // A number from before they were forgotten belongs to no library.
            Origin(number) => {
                self.numbers.get(usize::from(number) - 1).copied().unwrap_or(OriginTime::UNKNOWN)
            }
        }
    }
}
