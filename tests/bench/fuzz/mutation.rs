//! The messages of a hostile peer: valid packets and orders, with a few mutations.

use std::mem::offset_of;

use fastrand::Rng;
use xsched_protocol::arbiter_page::device_key;
use xsched_protocol::wire::{
    Domain, Hello, Hints, KernelName, ORIGIN_TIMES_MAX, OpenClaim, Opened, OriginName, OriginTime,
    OriginUsage, PACKET_LEN_MAX, PacketKind, Reported, Settings, Usage,
};
use xsched_tests::peer::hello;
use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::honest;

/// JSON, or nearly, that is not a whole number or not one that fits.
const ODD: [&str; 12] = [
    "NaN",
    "Infinity",
    "1e308",
    "-1e308",
    "1e1",
    "0.5",
    "-0",
    "-1",
    "18446744073709551616",
    "\"5\"",
    "null",
    "[5]",
];

/// Numbers at the limits of types, of ranges and of values with a meaning.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    7,
    63,
    64,
    255,
    256,
    4095,
    4096,
    i32::MAX as u64,
    i32::MIN as u32 as u64,
    u32::MAX as u64,
    i64::MAX as u64,
    u64::MAX,
];

/// One packet in this many is malformed.
const MALFORMED: u32 = 200;

/// Limit of remembered queues.
const KNOWN_MAX: usize = 64;

/// Slots, of any process, that are named without having been seen.
const SLOTS: u32 = 16;

/// Generates one message after the other.
pub(crate) struct MessageGenerator {
    random: Rng,
    /// Slot and generation of queues that it owned at some time.
    known: Vec<(u32, u32)>,
}

impl MessageGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), known: Vec::new() }
    }

    /// True with a probability of one in `once_in`.
    pub(crate) fn one_in(&mut self, once_in: u32) -> bool {
        self.random.u32(..once_in) == 0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.usize(..bound)
    }

    /// Remembers an opened queue.
    pub(crate) fn learn(&mut self, opened: &Opened) {
        if self.known.len() == KNOWN_MAX {
            let forgotten = self.random.usize(..KNOWN_MAX);
            self.known.swap_remove(forgotten);
        }
        self.known.push((opened.slot, opened.generation));
    }

    /// A first packet with hints that ask for much.
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        let hello = Hello {
            hints: self.random.u32(..16),
            priority: self.random.i32(-300..300),
            utilization: self.number() as u32,
            weight: self.number() as u32,
            deadline_ns: self.number(),
            ..hello()
        };
        hello.as_bytes().to_vec()
    }

    /// One packet. One in three is valid; most others contain odd numbers. Malformed packets are rare, since
    /// the controller reads nothing after one.
    pub(crate) fn packet(&mut self) -> Vec<u8> {
        if self.one_in(MALFORMED) {
            return self.malformed();
        }
        let mut packet = self.valid();
        if !self.one_in(3) {
            for _ in 0..self.random.usize(1..4) {
                // Behind the kind, and for texts behind their lengths.
                let first = if packet.len() == PACKET_LEN_MAX { 4 } else { 1 };
                let offset = 4 * self.random.usize(first..packet.len() / 4);
                let len = if self.random.bool() { 4 } else { 8 };
                self.overwrite(&mut packet, offset, len);
            }
            self.repair(&mut packet);
        }
        packet
    }

    /// A request whose answer shows that the controller has processed all earlier messages.
    pub(crate) fn question(request: u32) -> Vec<u8> {
        let open = OpenClaim {
            kind: PacketKind::OpenClaim as u32,
            request,
            device: honest::DEVICE,
            stream_priority: 0,
            ..OpenClaim::new_zeroed()
        };
        open.as_bytes().to_vec()
    }

    /// A packet after which the controller disconnects.
    fn malformed(&mut self) -> Vec<u8> {
        match self.random.u32(..4) {
            0 => self.hello(),
            1 => {
                Settings { kind: PacketKind::Settings as u32, len: self.number() as u32 }.as_bytes().to_vec()
            }
            // Of a kind that only the controller sends, or that does not exist.
            2 => {
                let mut packet = vec![0; self.random.usize(4..=PACKET_LEN_MAX)];
                packet[0] = self.random.u8(..20);
                packet
            }
            _ => {
                let mut packet = self.valid();
                for _ in 0..self.random.usize(1..4) {
                    self.mutate(&mut packet);
                }
                packet
            }
        }
    }

    /// One order as a line of JSON; `others` are processes that are not its own.
    pub(crate) fn order(&mut self, others: &[u32]) -> Vec<u8> {
        let pid = match self.random.choice(others) {
            Some(pid) if !self.one_in(4) => *pid,
            _ => std::process::id(),
        };
        let (wish, slot) = (self.wish(), self.random.u32(..SLOTS));
        let orders = [
            r#"{"verb":"status"}"#.to_owned(),
            r#"{"verb":"list"}"#.to_owned(),
            r#"{"verb":"off"}"#.to_owned(),
            r#"{"verb":"on"}"#.to_owned(),
            r#"{"verb":"joined"}"#.to_owned(),
            r#"{"verb":"policy","name":"fair"}"#.to_owned(),
            format!(r#"{{"verb":"explain","pid":{pid}}}"#),
            format!(r#"{{"verb":"set","target":{{"pid":{pid}}},"wish":{wish}}}"#),
            format!(r#"{{"verb":"set","target":{{"queue":{slot}}},"wish":{wish}}}"#),
            format!(r#"{{"verb":"set","target":{{"cgroup":"/"}},"wish":{wish}}}"#),
            format!(r#"{{"verb":"run","wish":{wish},"token":"{:032x}"}}"#, self.random.u128(..)),
        ];
        let mut line = orders[self.random.usize(..orders.len())].clone().into_bytes();
        if self.random.bool() {
            self.mutate(&mut line);
        }
        line.push(b'\n');
        line
    }

    fn wish(&mut self) -> String {
        let priority = self.random.i32(-256..257);
        match self.random.u32(..4) {
            0 => format!(r#"{{"priority":{priority}}}"#),
            3 => {
                let part = ["priority", "weight", "share"][self.random.usize(..3)];
                format!(r#"{{"{part}":{}}}"#, ODD[self.random.usize(..ODD.len())])
            }
            1 => format!(r#"{{"priority":{priority},"weight":{}}}"#, self.random.u32(..20_000)),
            _ => format!(r#"{{"share":{}}}"#, self.random.u32(..130)),
        }
    }

    fn number(&mut self) -> u64 {
        match self.random.u32(..3) {
            0 => self.random.u64(..),
            1 => self.random.u64(..16),
            _ => NUMBERS[self.random.usize(..NUMBERS.len())],
        }
    }

    /// A queue: its own, a former one, or any.
    fn queue(&mut self) -> (u32, u32) {
        let any = (self.random.u32(..SLOTS), self.random.u32(..8));
        if self.random.bool() { self.random.choice(&self.known).copied().unwrap_or(any) } else { any }
    }

    fn valid(&mut self) -> Vec<u8> {
        let (slot, generation) = self.queue();
        match self.random.u32(..35) {
            0..6 => {
                let open = OpenClaim {
                    kind: PacketKind::OpenClaim as u32,
                    request: self.random.u32(..),
                    device: if self.random.bool() {
                        honest::DEVICE
                    } else {
                        device_key(0, self.random.u32(..4), 0, 0)
                    },
                    stream_priority: self.random.i32(-3..4),
                    hints: self.random.u32(..16),
                    priority: self.number() as i32,
                    utilization: self.number() as u32,
                    deadline_ns: self.number(),
                };
                open.as_bytes().to_vec()
            }
            6..24 => {
                let operation = self.random.u64(..12);
                let argument = if self.random.bool() { generation.into() } else { self.number() };
                Reported { kind: PacketKind::Reported as u32, slot, operation, argument }.as_bytes().to_vec()
            }
            24..29 => {
                let usage = Usage {
                    kind: PacketKind::Usage as u32,
                    slot,
                    generation,
                    reserved: 0,
                    device_ns: self.number(),
                    launched: self.number(),
                    deferred: self.number(),
                    suspended_ns: self.number(),
                };
                usage.as_bytes().to_vec()
            }
            29 => OriginName::new(self.random.u32(..70), b"librocblas.so.4").as_bytes().to_vec(),
            30..32 => {
                let part = |random: &mut Rng| OriginTime {
                    origin: random.u32(..) >> random.u32(..32),
                    reserved: 0,
                    device_ns: random.u64(..),
                };
                let count = self.random.usize(..=ORIGIN_TIMES_MAX);
                let parts: Vec<_> = (0..count).map(|_| part(&mut self.random)).collect();
                OriginUsage::new(slot, generation, &parts).as_bytes().to_vec()
            }
            33 => {
                let hints = Hints {
                    kind: PacketKind::Hints as u32,
                    hints: self.random.u32(..16),
                    priority: self.random.i32(-300..300),
                    utilization: self.random.u32(..130),
                    weight: self.random.u32(..20_000),
                    reserved: 0,
                    deadline_ns: self.number(),
                };
                hints.as_bytes().to_vec()
            }
            32 => Domain::new(self.random.u32(..3), b"/usr/lib/librccl.so.1").as_bytes().to_vec(),
            _ => KernelName::new(self.random.u32(..), b"_Z6kernelPf").as_bytes().to_vec(),
        }
    }

    /// Makes it a valid packet in most cases: reserved fields are zero, and a device key has the right form.
    fn repair(&mut self, packet: &mut [u8]) {
        let is = |kind: PacketKind| packet.starts_with(&(kind as u32).to_ne_bytes());
        if is(PacketKind::Usage) {
            packet[offset_of!(Usage, reserved)..][..4].fill(0);
        } else if is(PacketKind::Hints) {
            packet[offset_of!(Hints, reserved)..][..4].fill(0);
        } else if is(PacketKind::OpenClaim) && !self.one_in(16) {
            let device = &mut packet[offset_of!(OpenClaim, device)..][..8];
            device[5..7].fill(0);
            device[7] = 0x80;
        }
    }

    fn mutate(&mut self, message: &mut Vec<u8>) {
        if message.is_empty() {
            return message.push(self.random.u8(..));
        }
        let offset = self.random.usize(..message.len());
        match self.random.u32(..6) {
            0 => message[offset] ^= 1 << self.random.u32(..8),
            1 => message[offset] = self.random.u8(..),
            2 | 3 => self.overwrite(message, offset / 4 * 4, 4),
            4 => message.truncate(offset),
            _ => {
                let longer = self.random.usize(..PACKET_LEN_MAX);
                message.resize(message.len() + longer, self.random.u8(..));
            }
        }
    }

    /// Replaces a number by another.
    fn overwrite(&mut self, message: &mut [u8], offset: usize, len: usize) {
        let number = self.number().to_ne_bytes();
        for (byte, new) in message.iter_mut().skip(offset).zip(&number[..len]) {
            *byte = *new;
        }
    }
}
