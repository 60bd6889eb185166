//! Packets of a queue (AQL): what each does, and how its end is told.
//!
//! Layouts are those of the HSA standard and of AMD's `amd_hsa_queue.h` and `amd_hsa_signal.h`, in
//! [ROCR-Runtime](https://github.com/ROCm/ROCR-Runtime/tree/amd-staging/runtime/hsa-runtime/inc).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xsched_gcn3::{Cause, Isa, Launch, LaunchError, Memory, Run, Scratch, Step, Unmapped};

use crate::clock;
use crate::events::Events;
use crate::log;
use crate::pm4::{self, Pm4Error};
use crate::space::Space;
use crate::view::View;

/// Instructions after which a kernel looks for orders, and forgets where memory is.
const SLICE: u64 = 50_000;

/// How long a kernel rests whose waves only sleep, or that is suspended.
const REST: Duration = Duration::from_micros(100);

/// Fields of `amd_queue_t`, whose read index the driver knows.
mod queue_field {
    pub(super) const READ_INDEX: u64 = 128;
    pub(super) const APERTURES: u64 = 64;
    pub(super) const SCRATCH_RESOURCE: u64 = 144;
    pub(super) const SCRATCH_BASE: u64 = 160;
    pub(super) const PROPERTIES: u64 = 180;
    pub(super) const INACTIVE_SIGNAL: u64 = 192;
}

/// The queue gives its private memory back after one kernel.
const USES_SCRATCH_ONCE: u32 = 1 << 4;

/// What the processor of commands tells the runtime when a queue cannot go on.
mod trouble {
    pub(super) const SCRATCH: u64 = 1;
    pub(super) const SCRATCH_ONCE: u64 = 512;
    pub(super) const GROUP_MEMORY: u64 = 4;
    pub(super) const CODE: u64 = 8;
    pub(super) const VENDOR_PACKET: u64 = 256;
    pub(super) const GROUP: u64 = 64;
    pub(super) const INSTRUCTION: u64 = 0x4000_0000;
}

/// Fields of `amd_signal_t`.
mod signal_field {
    pub(super) const VALUE: u64 = 8;
    pub(super) const MAILBOX: u64 = 16;
    pub(super) const EVENT: u64 = 24;
    pub(super) const BEGIN: u64 = 32;
    pub(super) const END: u64 = 40;
}

/// Types of packets.
mod kind {
    pub(super) const VENDOR: u16 = 0;
    pub(super) const INVALID: u16 = 1;
    pub(super) const DISPATCH: u16 = 2;
    pub(super) const BARRIER_AND: u16 = 3;
    pub(super) const BARRIER_OR: u16 = 5;
}

/// Formats of AMD's own packets.
const FORMAT_PM4: u8 = 1;
const FORMAT_BARRIER_VALUE: u8 = 2;

/// Where a queue's packets and indices are, by the GPU's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) ring: u64,
    /// Packets of the ring.
    pub(crate) packets: u64,
    pub(crate) read_pointer: u64,
    pub(crate) write_pointer: u64,
}

/// What others tell a queue's thread.
#[derive(Debug)]
pub(crate) struct Orders {
    /// The thread ends, with its kernel where that is.
    pub(crate) is_over: AtomicBool,
    /// Its kernel and its packets rest meanwhile.
    pub(crate) is_suspended: AtomicBool,
}

/// What a queue's packets work on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) space: &'static Space,
    pub(crate) events: &'static Events,
}

/// What came of a look at the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A packet was taken.
    Done,
    /// None could be.
    Nothing,
    /// None will ever be.
    Broken,
}

/// Why a packet was not executed to its end.
#[derive(Debug)]
enum Stop {
    /// Not yet: something has to come first.
    Later,
    /// The queue was destroyed.
    Over,
    /// The queue has too little private memory.
    Scratch,
    /// A kernel used an address without memory.
    Address(u64, String),
    /// The runtime gets this code.
    Code(u64, String),
}

impl From<Unmapped> for Stop {
    fn from(unmapped: Unmapped) -> Self {
        Self::Address(unmapped.address, unmapped.to_string())
    }
}

/// What wakes those that wait for a signal. It is read before the value is set: a thread that sees the value may destroy the signal, or
/// reset it with another event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waker {
    /// 0 if no thread sleeps for it.
    mailbox: u64,
    event: u32,
}

impl Waker {
    fn of(signal: u64, memory: &mut impl Memory) -> Result<Self, Unmapped> {
        let mailbox = memory.read_u64(signal + signal_field::MAILBOX)?;
        Ok(Self { mailbox, event: memory.read_u32(signal + signal_field::EVENT)? })
    }

    fn wake(self, events: &Events, memory: &mut impl Memory) -> Result<(), Unmapped> {
        if self.mailbox != 0 {
            memory.write(self.mailbox, &u64::from(self.event).to_le_bytes())?;
            events.set(self.event, true);
        }
        Ok(())
    }
}

/// Takes the packets of a queue.
#[derive(Debug)]
pub(crate) struct Worker {
    device: Device,
    id: u32,
    place: Place,
    orders: Arc<Orders>,
    /// Index of the next packet, and of the first that was not announced yet.
    next: u64,
    announced: u64,
    doorbell: u64,
    /// The runtime was told of trouble, and has not answered.
    is_asking: bool,
    /// Index of the packet that was listed last.
    told: Option<u64>,
}

impl Worker {
    pub(crate) fn new(device: Device, id: u32, place: Place, orders: Arc<Orders>) -> Self {
        Self {
            device,
            id,
            place,
            orders,
            next: 0,
            announced: 0,
            doorbell: u64::MAX,
            is_asking: false,
            told: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.orders.is_over.load(Ordering::Acquire)
    }

    /// Address of `amd_queue_t`.
    fn queue(&self) -> u64 {
        self.place.read_pointer.wrapping_sub(queue_field::READ_INDEX)
    }

    /// Takes the next packet, if it is announced and can be executed.
    pub(crate) fn take(&mut self, doorbell: u64) -> Outcome {
        let Device { space, events } = self.device;
        let mut view = View::new(space);
        match self.try_take(doorbell, &mut view) {
            Ok(()) => Outcome::Done,
            Err(Stop::Later | Stop::Over) => Outcome::Nothing,
            Err(Stop::Scratch) => {
                self.ask(trouble::SCRATCH, &mut view);
                Outcome::Nothing
            }
            Err(Stop::Address(address, what)) => {
                log::complain(format_args!("queue {}: {what}", self.id));
                if !events.fault(address) {
                    log::complain(format_args!("nothing waits for such an address"));
                }
                Outcome::Broken
            }
            Err(Stop::Code(code, what)) => {
                log::complain(format_args!("queue {}: {what}", self.id));
                self.ask(code, &mut view);
                Outcome::Broken
            }
        }
    }

    /// Tells the runtime of trouble, by the queue's own signal.
    fn ask(&mut self, code: u64, view: &mut View<'_>) {
        let told = view.read_u64(self.queue() + queue_field::INACTIVE_SIGNAL).and_then(|signal| {
            let waker = Waker::of(signal, view)?;
            view.quad(signal + signal_field::VALUE)?.store(code, Ordering::Release);
            waker.wake(self.device.events, view)
        });
        match told {
            Ok(()) => self.is_asking = true,
            Err(error) => log::complain(format_args!("queue {}: its own signal: {error}", self.id)),
        }
    }

    fn try_take(&mut self, doorbell: u64, view: &mut View<'_>) -> Result<(), Stop> {
        if self.orders.is_suspended.load(Ordering::Acquire) {
            return Err(Stop::Later);
        }
        if self.is_asking {
            // The runtime answers with 0.
            let signal = view.read_u64(self.queue() + queue_field::INACTIVE_SIGNAL)?;
            if view.quad(signal + signal_field::VALUE)?.load(Ordering::Acquire) != 0 {
                return Err(Stop::Later);
            }
            self.is_asking = false;
        }
        if doorbell != self.doorbell {
            // Producers ring in any order, so the doorbell may tell of fewer packets than there are.
            let written = view.quad(self.place.write_pointer)?.load(Ordering::Acquire);
            self.doorbell = doorbell;
            self.announced = self.announced.max(doorbell.wrapping_add(1)).max(written);
        }
        if self.next >= self.announced {
            return Err(Stop::Later);
        }
        let address = self.place.ring + self.next % self.place.packets * 64;
        let mut packet = [0; 64];
        view.read(address, &mut packet)?;
        let header = u16::from_le_bytes([packet[0], packet[1]]);
        if header & 0xff == kind::INVALID {
            return Err(Stop::Later);
        }
        self.tell(header, &packet);
        let begin = clock::device();
        let used_scratch = self.execute(address, &packet, view)?;
        self.finish(address, &packet, begin, view)?;
        if used_scratch {
            let properties = view.read_u32(self.queue() + queue_field::PROPERTIES)?;
            if properties & USES_SCRATCH_ONCE != 0 {
                self.ask(trouble::SCRATCH_ONCE, view);
            }
        }
        Ok(())
    }

    /// Lists a packet when it is first looked at: its type, the signals that a barrier waits for, and its own signal.
    fn tell(&mut self, header: u16, packet: &[u8; 64]) {
        if self.told == Some(self.next) {
            return;
        }
        self.told = Some(self.next);
        let waits = matches!(header & 0xff, kind::BARRIER_AND | kind::BARRIER_OR);
        let signals: Vec<_> = (0..5).map(|index| quad(packet, 8 + index * 8)).filter(|_| waits).collect();
        let own = quad(packet, 56);
        log::line(format_args!("packet {} {} {header:#06x} {signals:x?} {own:#x}", self.id, self.next));
    }

    /// Executes a packet; says whether it used private memory.
    fn execute(&self, address: u64, packet: &[u8; 64], view: &mut View<'_>) -> Result<bool, Stop> {
        let header = u16::from_le_bytes([packet[0], packet[1]]);
        match header & 0xff {
            kind::DISPATCH => self.dispatch(address, packet),
            which @ (kind::BARRIER_AND | kind::BARRIER_OR) => {
                let mut values = Vec::new();
                for signal in (0..5).map(|index| quad(packet, 8 + index * 8)).filter(|&signal| signal != 0) {
                    values.push(view.quad(signal + signal_field::VALUE)?.load(Ordering::Acquire));
                }
                let is_met = if which == kind::BARRIER_AND {
                    values.iter().all(|&value| value == 0)
                } else {
                    values.is_empty() || values.contains(&0)
                };
                if is_met { Ok(false) } else { Err(Stop::Later) }
            }
            kind::VENDOR if packet[2] == FORMAT_PM4 => {
                let words: [u32; 4] = std::array::from_fn(|index| word(packet, 4 + index * 4));
                match pm4::jump(&words, view) {
                    Ok(()) => Ok(false),
                    Err(Pm4Error::Memory(unmapped)) => Err(unmapped.into()),
                    Err(error) => Err(Stop::Code(trouble::VENDOR_PACKET, error.to_string())),
                }
            }
            kind::VENDOR if packet[2] == FORMAT_BARRIER_VALUE => {
                let signal = quad(packet, 8);
                let value = view.quad(signal + signal_field::VALUE)?.load(Ordering::Acquire);
                let (value, wanted) = ((value & quad(packet, 24)) as i64, quad(packet, 16) as i64);
                let is_met = match word(packet, 32) {
                    0 => value == wanted,
                    1 => value != wanted,
                    2 => value < wanted,
                    _ => value >= wanted,
                };
                if is_met { Ok(false) } else { Err(Stop::Later) }
            }
            _ => {
                let what = format!("packet {header:#06x} of format {} is not served", packet[2]);
                Err(Stop::Code(trouble::VENDOR_PACKET, what))
            }
        }
    }

    /// Frees the packet's place, and tells those that wait for it.
    fn finish(
        &mut self,
        address: u64,
        packet: &[u8; 64],
        begin: u64,
        view: &mut View<'_>,
    ) -> Result<(), Stop> {
        let invalid = [kind::INVALID as u8, packet[1]];
        view.write(address, &invalid)?;
        self.next += 1;
        view.quad(self.place.read_pointer)?.store(self.next, Ordering::Release);
        let signal = quad(packet, 56);
        if signal != 0 {
            view.write(signal + signal_field::BEGIN, &begin.to_le_bytes())?;
            view.write(signal + signal_field::END, &clock::device().to_le_bytes())?;
            let waker = Waker::of(signal, view)?;
            // Release: a thread that sees the value sees what the kernel wrote.
            view.quad(signal + signal_field::VALUE)?.fetch_sub(1, Ordering::AcqRel);
            waker.wake(self.device.events, view)?;
        }
        Ok(())
    }

    /// What the processor of commands knows of a dispatch.
    fn launch(&self, address: u64, packet: [u8; 64], view: &mut View<'_>) -> Result<Launch, Unmapped> {
        let queue = self.queue();
        let mut words = |at: u64| view.read_u32(queue + at);
        let mut resource = [0; 4];
        for (value, at) in resource.iter_mut().zip((queue_field::SCRATCH_RESOURCE..).step_by(4)) {
            *value = words(at)?;
        }
        let apertures = [words(queue_field::APERTURES)?, words(queue_field::APERTURES + 4)?];
        Ok(Launch {
            isa: Isa::Gfx9,
            packet,
            packet_address: address,
            queue_address: queue,
            scratch: Scratch {
                base: view.read_u64(queue + queue_field::SCRATCH_BASE)?,
                // The third word is the number of bytes.
                size: u64::from(resource[2]),
                resource,
            },
            apertures,
        })
    }

    /// Runs a kernel to its end.
    fn dispatch(&self, address: u64, packet: &[u8; 64]) -> Result<bool, Stop> {
        let space = self.device.space;
        let mut run = {
            let mut view = View::new(space);
            let launch = self.launch(address, *packet, &mut view)?;
            Run::new(launch, &mut view).map_err(|error| match error {
                LaunchError::Scratch { .. } => Stop::Scratch,
                LaunchError::Descriptor(_) => Stop::Code(trouble::CODE, error.to_string()),
                LaunchError::Group(_) => Stop::Code(trouble::GROUP, error.to_string()),
                LaunchError::Lds(_) => Stop::Code(trouble::GROUP_MEMORY, error.to_string()),
            })?
        };
        loop {
            if self.is_over() {
                return Err(Stop::Over);
            }
            if self.orders.is_suspended.load(Ordering::Acquire) {
                thread::sleep(REST);
                continue;
            }
            let step = run.step(&mut View::new(space), SLICE);
            // A kernel that sets a signal asks for its event by itself.
            for event in run.interrupts() {
                self.device.events.set(event, true);
            }
            match step {
                Ok(Step::Done) => break,
                Ok(Step::Waits) => thread::sleep(REST),
                Ok(Step::Runs) => {}
                Err(fault) => {
                    return Err(match fault.cause {
                        Cause::Memory(unmapped) => Stop::Address(unmapped.address, fault.to_string()),
                        _ => Stop::Code(trouble::INSTRUCTION, fault.to_string()),
                    });
                }
            }
        }
        let (pid, waves) = (std::process::id(), run.waves().len());
        log::line(format_args!("dispatch {pid} {} {waves} {}", self.id, run.executed()));
        Ok(word(packet, 24) > 0)
    }
}

fn word(packet: &[u8; 64], at: usize) -> u32 {
    u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

fn quad(packet: &[u8; 64], at: usize) -> u64 {
    u64::from(word(packet, at)) | u64::from(word(packet, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use xsched_gcn3::Block;

    use super::*;
    use crate::abi::{EVENT_SIGNAL, EventData};
    use crate::events::Ended;

    /// A thread that sees a signal's value may reset the signal before its event is set.
    #[test]
    fn a_signal_that_is_reset_wakes_by_the_event_that_it_had() {
        let (events, mut memory) = (Events::default(), Block::new(0x1000, 0x1000));
        let [first, second] = [(); 2].map(|()| events.create(EVENT_SIGNAL, true).unwrap());
        memory.write(0x1000 + signal_field::MAILBOX, &0x1800_u64.to_le_bytes()).unwrap();
        memory.write_u32(0x1000 + signal_field::EVENT, first).unwrap();
        let waker = Waker::of(0x1000, &mut memory).unwrap();
        memory.write_u32(0x1000 + signal_field::EVENT, second).unwrap();
        waker.wake(&events, &mut memory).unwrap();
        let ended = |event_id| events.wait(&mut [EventData { event_id, ..EventData::default() }], false, 0);
        assert_eq!([ended(first), ended(second)], [Ended::Complete, Ended::Timeout]);
        assert_eq!(memory.read_u64(0x1800), Ok(u64::from(first)));
    }
}
