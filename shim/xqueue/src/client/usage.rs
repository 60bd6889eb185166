//! What the controller is told of what claims have used, and of the libraries that used it.

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

/// What was told of a claim.
#[derive(Debug, Default)]
pub(super) struct Account {
    usage: claim::Usage,
    /// Device time by what libraries are called on the wire.
    by_origin: BTreeMap<u32, u64>,
}

/// What was told of libraries: these have names.
#[derive(Debug, Default)]
pub(super) struct Names {
    told: usize,
    /// What each number is called on the wire.
    numbers: Vec<u32>,
}

impl Account {
    /// Whether the claim has used nothing since this last told.
    pub(super) fn is_told<D: Device>(&self, queues: &XQueues<D>, claim: ClaimId) -> bool {
        queues.usage(claim) == self.usage
    }

    /// Tells what a claim has used since this last told. What a controller that is far behind does not take, the next packet
    /// says again.
    pub(super) fn tell<D: Device>(
        &mut self,
        socket: &Connection,
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
            held_back: usage.deferred,
            suspended_ns: usage.suspended.0,
        };
        if socket.send(&packet).is_ok()
            && names.tell(socket, host)
            && self.tell_parts(socket, names, slot, &times)
        {
            self.usage = usage;
        }
    }

    /// Tells the parts that have changed; whether the controller has taken all of them.
    fn tell_parts(&mut self, socket: &Connection, names: &Names, slot: Slot, times: &OriginTimes) -> bool {
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
        let is_told = packets.all(|packet| socket.send(&packet).is_ok());
        if is_told {
            self.by_origin = by_origin;
        }
        is_told
    }
}

impl Names {
    /// Tells the names of libraries that have none yet; whether the controller knows all.
    fn tell(&mut self, socket: &Connection, host: &dyn Host) -> bool {
        for (Origin(number), library) in host.origins().into_iter().skip(self.told) {
            let number = match library {
                Library::Controllers(number) => number,
                Library::Own(name) => {
                    if socket.send(&OriginName::new(number.into(), name.as_bytes())).is_err() {
                        return false;
                    }
                    u32::from(number) | OriginTime::OWN
                }
            };
            self.numbers.push(number);
            self.told += 1;
        }
        true
    }

    fn number(&self, origin: Origin) -> u32 {
        match origin {
            Origin::UNKNOWN => OriginTime::UNKNOWN,
            Origin::OTHERS => OriginTime::OTHERS,
            // One of before the numbers were forgotten is nobody's.
            Origin(number) => {
                self.numbers.get(usize::from(number) - 1).copied().unwrap_or(OriginTime::UNKNOWN)
            }
        }
    }
}
