//! What KFD answers: one driver for each process.

use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::io::Errno;
use rustix::process::getpid;

use crate::abi::{
    self, AllocMemory, Apertures, AvailableMemory, ClockCounters, CreateEvent, CreateQueue, EventData,
    GPU_ID, GROUP_BASE, GetApertures, Handle, Id, MapMemory, OFFSET_DOORBELLS, OFFSET_KIND, OFFSET_MEMORY,
    PRIVATE_BASE, TileConfig, UpdateQueue, VERSION, Version, WaitEvents, XnackMode, number,
};
use crate::clock;
use crate::events::{Ended, Events};
use crate::log;
use crate::packet::{Device, Place};
use crate::queue::Queues;
use crate::request::Request;
use crate::space::Space;

/// Size of group and private memory in flat addresses.
const APERTURE_BYTES: u64 = 1 << 32;

/// The highest address of the GPU: it reaches all of the process.
const ADDRESS_MAX: u64 = (1 << 47) - 1;

/// State of the device for this process.
#[derive(Debug)]
pub(crate) struct Driver {
    pid: i32,
    space: Space,
    events: Events,
    queues: Queues,
}

static DRIVER: AtomicPtr<Driver> = AtomicPtr::new(ptr::null_mut());

impl Driver {
    /// The process's own. A forked child has a new one: it has none of the threads of the old.
    pub(crate) fn get() -> &'static Self {
        let pid = getpid().as_raw_nonzero().get();
        let mut current = DRIVER.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or a box that was leaked below.
            if let Some(driver) = unsafe { current.as_ref() }
                && driver.pid == pid
            {
                return driver;
            }
            let (space, events, queues) = (Space::default(), Events::default(), Queues::default());
            let new = Box::into_raw(Box::new(Self { pid, space, events, queues }));
            match DRIVER.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it was just leaked.
                Ok(_) => return unsafe { &*new },
                Err(other) => {
                    // SAFETY: no other thread has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    current = other;
                }
            }
        }
    }

    /// Answers one request.
    pub(crate) fn answer(&'static self, asked: &Request) -> Result<(), Errno> {
        match asked.number {
            number::GET_VERSION => asked.with(|version: &mut Version| {
                [version.major, version.minor] = VERSION;
                Ok(())
            }),
            number::CREATE_QUEUE => asked.with(|queue: &mut CreateQueue| self.create_queue(queue)),
            number::DESTROY_QUEUE => asked.with(|queue: &mut Id| self.queues.destroy(queue.id)),
            number::UPDATE_QUEUE => asked.with(|queue: &mut UpdateQueue| {
                self.queues.update(queue.queue_id, queue.percentage > 0 && queue.ring_base != 0)
            }),
            number::GET_CLOCK_COUNTERS => asked.with(|counters: &mut ClockCounters| {
                let gpu_id = GPU_ID;
                let (gpu, cpu, system) = (clock::device(), clock::raw_ns(), clock::boot_ns());
                *counters =
                    ClockCounters { gpu, cpu, system, system_frequency: 1_000_000_000, gpu_id, pad: 0 };
                Ok(())
            }),
            number::CREATE_EVENT => asked.with(|event: &mut CreateEvent| self.create_event(event)),
            number::DESTROY_EVENT => asked.with(|event: &mut Id| found(self.events.destroy(event.id))),
            number::SET_EVENT => asked.with(|event: &mut Id| found(self.events.set(event.id, true))),
            number::RESET_EVENT => asked.with(|event: &mut Id| found(self.events.set(event.id, false))),
            number::WAIT_EVENTS => asked.with(|wait: &mut WaitEvents| {
                self.wait(wait);
                Ok(())
            }),
            number::GET_APERTURES => asked.with(|asked: &mut GetApertures| {
                apertures(asked);
                Ok(())
            }),
            number::ALLOC_MEMORY => asked.with(|memory: &mut AllocMemory| self.allocate(memory)),
            number::FREE_MEMORY => asked.with(|memory: &mut Handle| self.space.free(memory.handle)),
            number::MAP_MEMORY => asked.with(|memory: &mut MapMemory| {
                memory.success_count = memory.device_count;
                self.space.map(memory.handle)
            }),
            number::UNMAP_MEMORY => asked.with(|memory: &mut MapMemory| {
                memory.success_count = memory.device_count;
                self.space.unmap(memory.handle)
            }),
            number::AVAILABLE_MEMORY => asked.with(|memory: &mut AvailableMemory| {
                memory.available = self.space.available();
                Ok(())
            }),
            // Pages cannot be replayed here; the query is a negative number.
            number::SET_XNACK_MODE => asked.with(|mode: &mut XnackMode| {
                let is_wanted = mode.enabled > 0;
                mode.enabled = 0;
                if is_wanted { Err(Errno::PERM) } else { Ok(()) }
            }),
            number::GET_TILE_CONFIG => asked.with(|config: &mut TileConfig| {
                (config.tile_count, config.macro_tile_count) = (0, 0);
                Ok(())
            }),
            // Caches, the trap handler and private memory of the driver's choice are nothing here, and units are not masked.
            number::SET_MEMORY_POLICY
            | number::SET_SCRATCH_BACKING
            | number::SET_TRAP_HANDLER
            | number::ACQUIRE_VM
            | number::SET_CU_MASK => Ok(()),
            other => {
                log::complain(format_args!("request {other:#04x} of KFD is not answered"));
                Err(Errno::INVAL)
            }
        }
    }

    fn create_queue(&'static self, queue: &mut CreateQueue) -> Result<(), Errno> {
        if queue.queue_type != abi::QUEUE_AQL {
            log::complain(format_args!("a queue of type {} is not served", queue.queue_type));
            return Err(Errno::INVAL);
        }
        let place = Place {
            ring: queue.ring_base,
            packets: u64::from(queue.ring_size) / 64,
            read_pointer: queue.read_pointer,
            write_pointer: queue.write_pointer,
        };
        queue.queue_id = self.queues.create(Device { space: &self.space, events: &self.events }, place)?;
        queue.doorbell_offset = OFFSET_DOORBELLS | (u64::from(queue.queue_id) * 8);
        Ok(())
    }

    fn create_event(&self, event: &mut CreateEvent) -> Result<(), Errno> {
        let resets_itself = event.auto_reset != 0;
        let id = self.events.create(event.event_type, resets_itself).ok_or(Errno::NOMEM)?;
        (event.event_id, event.trigger_data) = (id, id);
        // The thunk has allocated the page of slots, and wants to see that it is in use.
        event.slot_index = if event.event_type == abi::EVENT_SIGNAL { id } else { u32::MAX };
        event.page_offset = OFFSET_MEMORY;
        Ok(())
    }

    fn wait(&self, wait: &mut WaitEvents) {
        let events: *mut EventData = ptr::with_exposed_provenance_mut(wait.events as usize);
        // SAFETY: the caller has as many there, and waits for the answer.
        let events = unsafe { slice::from_raw_parts_mut(events, wait.count as usize) };
        match self.events.wait(events, wait.for_all != 0, wait.timeout_ms) {
            Ended::Complete => wait.result = 0,
            Ended::Timeout => wait.result = 1,
            Ended::Fail => wait.result = 2,
        }
    }

    fn allocate(&self, memory: &mut AllocMemory) -> Result<(), Errno> {
        let AllocMemory { address, size, flags, mmap_offset, .. } = *memory;
        memory.handle = self.space.allocate(address, size, flags, mmap_offset).inspect_err(|error| {
            log::line(format_args!("no {size} bytes at {address:#x}, flags {flags:#x}: {error}"));
        })?;
        memory.mmap_offset = OFFSET_MEMORY;
        Ok(())
    }

    /// Maps what the driver gave an offset for. The memory is there since it was allocated.
    pub(crate) fn map(&self, at: *mut c_void, size: usize, offset: u64) -> Result<*mut c_void, Errno> {
        match offset & OFFSET_KIND {
            OFFSET_MEMORY => Ok(at),
            OFFSET_DOORBELLS => self.queues.map_doorbells(at, size),
            _ => Err(Errno::INVAL),
        }
    }
}

fn found(is_there: bool) -> Result<(), Errno> {
    if is_there { Ok(()) } else { Err(Errno::INVAL) }
}

fn apertures(asked: &mut GetApertures) {
    let first: *mut Apertures = ptr::with_exposed_provenance_mut(asked.apertures as usize);
    if asked.count > 0 && !first.is_null() {
        let apertures = Apertures {
            group_base: GROUP_BASE,
            group_limit: GROUP_BASE + APERTURE_BYTES - 1,
            private_base: PRIVATE_BASE,
            private_limit: PRIVATE_BASE + APERTURE_BYTES - 1,
            // The first pages stay unused, as with the driver.
            gpuvm_base: 0x4000,
            gpuvm_limit: ADDRESS_MAX,
            gpu_id: GPU_ID,
            pad: 0,
        };
        // SAFETY: the caller has room for as many as it says.
        unsafe { first.write(apertures) };
    }
    asked.count = 1;
}
