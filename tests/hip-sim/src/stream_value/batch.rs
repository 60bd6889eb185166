//! What a batch of operations on words is, and how it runs.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::abi::hipStreamBatchMemOpParams;
use crate::engine::{Command, Condition, Device, Gate, PollInterval, TimeTaken, Work};
use crate::error::HipError;
use crate::{devices, memory};

/// `hipStreamBatchMemOpType`
const WAIT_32: u32 = 1;
const WRITE_32: u32 = 2;
const FLUSH_REMOTE_WRITES: u32 = 3;
const WAIT_64: u32 = 4;
const WRITE_64: u32 = 5;
const BARRIER: u32 = 6;

/// The condition from the flags of a wait.
pub(super) fn condition(flags: u32) -> Result<Condition, HipError> {
    Condition::from_code(flags).ok_or(HipError::InvalidValue)
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Wait { condition: Condition, mask: u64 },
    Write,
}

/// One operation on one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    address: usize,
    is_64_bit: bool,
    value: u64,
    action: Action,
}

impl Word {
    /// Checks that HIP knows the memory. Its mapping then lives until the device is done with it.
    pub(super) fn new(
        address: *mut c_void,
        is_64_bit: bool,
        value: u64,
        action: Action,
    ) -> Result<Self, HipError> {
        let size = if is_64_bit { 8 } else { 4 };
        let found = memory::known().find(address as usize);
        let fits = found.is_some_and(|range| range.size_from(address as usize) >= size);
        if !fits || !(address as usize).is_multiple_of(size) {
            return Err(HipError::InvalidValue);
        }
        let address = address.expose_provenance();
        let value = if is_64_bit { value } else { value & u64::from(u32::MAX) };
        Ok(Self { address, is_64_bit, value, action })
    }

    fn read(&self) -> u64 {
        // SAFETY: the address was checked to be aligned and inside an allocation, which the application keeps
        // valid.
        unsafe {
            if self.is_64_bit {
                AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(self.address)).load(Ordering::Acquire)
            } else {
                let word = AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(self.address));
                u64::from(word.load(Ordering::Acquire))
            }
        }
    }

    /// Whether a stream can continue past this operation.
    fn holds(&self) -> bool {
        match self.action {
            Action::Wait { condition, mask } => condition.holds(self.read(), self.value, mask),
            Action::Write => true,
        }
    }

    fn wait(&self) {
        let poll_interval = PollInterval::new();
        while !self.holds() {
            poll_interval.pause();
        }
    }

    /// The wait as a packet of the device.
    fn gate(&self, device: &Device) -> Option<Gate> {
        let Action::Wait { condition, mask } = self.action else { return None };
        let location = device.word_location(self.address)?;
        Some(Gate { location, is_64_bit: self.is_64_bit, condition, value: self.value, mask })
    }

    fn run(&self) {
        match self.action {
            Action::Wait { .. } => self.wait(),
            // SAFETY: as in `read`.
            Action::Write => unsafe {
                if self.is_64_bit {
                    let word = AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(self.address));
                    word.store(self.value, Ordering::Release);
                } else {
                    let word = AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(self.address));
                    word.store(self.value as u32, Ordering::Release);
                }
            },
        }
    }
}

/// Operations on words, in order.
#[derive(Clone, Debug)]
pub(crate) struct Batch(pub(super) Vec<Word>);

impl Batch {
    /// From HIP's parameters. Barriers and flushes need no action, because the batch is in order.
    ///
    /// # Safety
    ///
    /// `params` is null or has `count` elements.
    pub(crate) unsafe fn new(count: u32, params: *const hipStreamBatchMemOpParams) -> Result<Self, HipError> {
        if count == 0 || params.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller upholds this function's contract.
        let params = unsafe { core::slice::from_raw_parts(params, count as usize) };
        let mut words = Vec::with_capacity(params.len());
        for one in params {
            let is_64_bit = matches!(one.operation, WAIT_64 | WRITE_64);
            let action = match one.operation {
                WAIT_32 | WAIT_64 => Action::Wait { condition: condition(one.flags)?, mask: u64::MAX },
                WRITE_32 | WRITE_64 => Action::Write,
                FLUSH_REMOTE_WRITES | BARRIER => continue,
                _ => return Err(HipError::InvalidValue),
            };
            words.push(Word::new(one.address, is_64_bit, one.value, action)?);
        }
        Ok(Self(words))
    }

    /// A command to be submitted once, to a stream of the device with this ordinal.
    pub(crate) fn command(self, device: usize) -> Command {
        if let [word] = self.0.as_slice()
            && let Some(gate) = word.gate(&devices::all()[device].engine)
        {
            return Command::on_device(Work::Gate(gate), || ());
        }
        let held_from_the_start = self.holds();
        Command::on_words(move || self.run(held_from_the_start))
    }

    fn holds(&self) -> bool {
        self.0.iter().all(Word::holds)
    }

    /// If the conditions held at submission and hold now, the batch takes no time on the timeline: the thread
    /// that checks them is later than a device would be, and its delay must not count. If they held at only
    /// one of these times, the batch ends now, since the time of the write is unknown.
    fn run(&self, held_at_submission: bool) -> TimeTaken {
        let took = if held_at_submission && self.holds() { TimeTaken::NoTime } else { TimeTaken::HostTime };
        self.0.iter().for_each(Word::run);
        took
    }
}
