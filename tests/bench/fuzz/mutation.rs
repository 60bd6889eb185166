//! What a hostile peer says: packets and orders that make sense, and what a few mutations make of them.

use std::mem::offset_of;

use fastrand::Rng;
use xsched_protocol::arbiter_page::device_key;
use xsched_protocol::wire::{
    Domain, Hello, KernelName, ORIGIN_TIMES_MAX, OpenQueue, Opened, OriginName, OriginTime, OriginUsage,
    PACKET_LEN_MAX, PacketKind, Reported, Settings, Usage,
};
use xsched_tests::peer::hello;
use zerocopy::IntoBytes as _;

use crate::honest;

/// What is no whole number, or none that fits, as JSON or nearly.
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

/// At edges of types, of limits and of the values that have a meaning.
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

/// One packet in so many is none.
const MALFORMED: u32 = 200;

/// Queues that are remembered.
const KNOWN_MAX: usize = 64;

/// Slots, of whomever, that are named without having been seen.
const SLOTS: u32 = 16;

/// Says one thing after the other.
pub(crate) struct Mouth {
    random: Rng,
    /// Slot and generation of queues that were its own at some time.
    known: Vec<(u32, u32)>,
}

impl Mouth {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), known: Vec::new() }
    }

    /// True once in so many times.
    pub(crate) fn happens(&mut self, once_in: u32) -> bool {
        self.random.u32(..once_in) == 0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.usize(..bound)
    }

    /// It has a queue.
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
            hints: self.random.u32(..8),
            priority: self.random.i32(-300..300),
            utilization: self.number() as u32,
            weight: self.number() as u32,
            ..hello()
        };
        hello.as_bytes().to_vec()
    }

    /// One packet. One in three makes sense, most others have odd numbers in them; what is no packet at all is rare, since
    /// nothing more is heard after it.
    pub(crate) fn packet(&mut self) -> Vec<u8> {
        if self.happens(MALFORMED) {
            return self.malformed();
        }
        let mut packet = self.valid();
        if !self.happens(3) {
            for _ in 0..self.random.usize(1..4) {
                // Behind the kind, and of texts behind their lengths.
                let first = if packet.len() == PACKET_LEN_MAX { 4 } else { 1 };
                let place = 4 * self.random.usize(first..packet.len() / 4);
                let len = if self.random.bool() { 4 } else { 8 };
                self.overwrite(&mut packet, place, len);
            }
            self.tidy(&mut packet);
        }
        packet
    }

    /// What the controller answers if it has heard all that was said before.
    pub(crate) fn question(request: u32) -> Vec<u8> {
        let open = OpenQueue {
            kind: PacketKind::OpenQueue as u32,
            request,
            device: honest::DEVICE,
            stream_priority: 0,
            reserved: 0,
        };
        open.as_bytes().to_vec()
    }

    /// What the controller does not listen to any further.
    fn malformed(&mut self) -> Vec<u8> {
        match self.random.u32(..4) {
            0 => self.hello(),
            1 => {
                Settings { kind: PacketKind::Settings as u32, len: self.number() as u32 }.as_bytes().to_vec()
            }
            // Of a kind that is the controller's to say, or nobody's.
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
            Some(pid) if !self.happens(4) => *pid,
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

    /// A queue: its own, one that was, or anybody's.
    fn queue(&mut self) -> (u32, u32) {
        let any = (self.random.u32(..SLOTS), self.random.u32(..8));
        if self.random.bool() { self.random.choice(&self.known).copied().unwrap_or(any) } else { any }
    }

    fn valid(&mut self) -> Vec<u8> {
        let (slot, generation) = self.queue();
        match self.random.u32(..34) {
            0..6 => {
                let open = OpenQueue {
                    kind: PacketKind::OpenQueue as u32,
                    request: self.random.u32(..),
                    device: if self.random.bool() {
                        honest::DEVICE
                    } else {
                        device_key(0, self.random.u32(..4), 0, 0)
                    },
                    stream_priority: self.random.i32(-3..4),
                    reserved: 0,
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
                    held_back: self.number(),
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
            32 => Domain::new(self.random.u32(..3), b"/usr/lib/librccl.so.1").as_bytes().to_vec(),
            _ => KernelName::new(self.random.u32(..), b"_Z6kernelPf").as_bytes().to_vec(),
        }
    }

    /// Leaves it a packet: what is reserved is zero, and a device's key has the form of one, mostly.
    fn tidy(&mut self, packet: &mut [u8]) {
        let is = |kind: PacketKind| packet.starts_with(&(kind as u32).to_ne_bytes());
        if is(PacketKind::Usage) {
            packet[offset_of!(Usage, reserved)..][..4].fill(0);
        } else if is(PacketKind::OpenQueue) {
            packet[offset_of!(OpenQueue, reserved)..][..4].fill(0);
            if !self.happens(16) {
                let device = &mut packet[offset_of!(OpenQueue, device)..][..8];
                device[5..7].fill(0);
                device[7] = 0x80;
            }
        }
    }

    fn mutate(&mut self, message: &mut Vec<u8>) {
        if message.is_empty() {
            return message.push(self.random.u8(..));
        }
        let place = self.random.usize(..message.len());
        match self.random.u32(..6) {
            0 => message[place] ^= 1 << self.random.u32(..8),
            1 => message[place] = self.random.u8(..),
            2 | 3 => self.overwrite(message, place / 4 * 4, 4),
            4 => message.truncate(place),
            _ => {
                let longer = self.random.usize(..PACKET_LEN_MAX);
                message.resize(message.len() + longer, self.random.u8(..));
            }
        }
    }

    /// A number in place of another.
    fn overwrite(&mut self, message: &mut [u8], place: usize, len: usize) {
        let number = self.number().to_ne_bytes();
        for (byte, new) in message.iter_mut().skip(place).zip(&number[..len]) {
            *byte = *new;
        }
    }
}
