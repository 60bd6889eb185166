//! What a controller does with the page, whoever keeps it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use xsched_protocol::arbiter_page::{
    ArbiterEvent, Control, DEVICE_MAX, LEVEL_COUNT, QUEUE_MAX, QueueWord, Report, SPOKEN_FOR, Word,
};
use xsched_protocol::wire::Keeper;
use xsched_symbols::FileId;

use crate::memory::Memory;
use crate::page::Page;
use crate::programs::{PINS, ProbedShim, Programs, ProgramsError, ShimSearch};
use crate::times::Times;
use crate::wake;

/// Why the arbiter did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum ArbiterError {
    /// The page could not be made.
    #[error("cannot make the page: {0}")]
    Page(io::Error),
    /// A way to wait could not be made.
    #[error("cannot make an epoll instance: {0}")]
    Wake(io::Error),
    /// There is no room for another device.
    #[error("the page has room for {DEVICE_MAX} devices")]
    DevicesFull,
    /// There is no room for another queue.
    #[error("the page has room for {QUEUE_MAX} queues")]
    QueuesFull,
    /// The queue was closed, by its process's end or otherwise.
    #[error("the queue is gone")]
    QueueGone,
    /// The process has ended, or is not one that queues may be opened for.
    #[error("the process is gone")]
    OwnerGone,
    /// A device's key must not be zero.
    #[error("{0:#x} names no device")]
    NoDevice(u64),
    /// The controller keeps the page, so no program hears anybody.
    #[error("no programs are loaded")]
    NoPrograms,
    /// The programs could not be used.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
}

/// A process that queues can be opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u64);

impl Owner {
    /// Its id: as the initial pid namespace has it if programs hear it, else as this process's pid namespace has it.
    pub const fn id(self) -> u32 {
        self.0 as u32
    }

    /// Whether the controller must speak for it, because no program hears it.
    pub const fn is_spoken_for(self) -> bool {
        self.0 & SPOKEN_FOR != 0
    }
}

/// A queue that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Its slot in the page.
    pub slot: u32,
    /// Which queue of that place.
    pub generation: u32,
}

/// What a process is told of a queue that was opened for it.
#[derive(Debug)]
pub struct Opened {
    /// Which one.
    pub queue: Queue,
    /// The page of its gate, see [`xsched_protocol::arbiter_page::GATE_SIZE`], which the process maps to read and to write; or why it has none:
    /// then the process sees to its gate itself. Nothing here needs the descriptor any more.
    pub gate: io::Result<OwnedFd>,
}

/// The page and who keeps it.
#[derive(Debug)]
pub struct Arbiter {
    backend: Backend,
    /// [`Word::EXHAUSTED`], when the masks were last repaired.
    repaired_at: u64,
}

#[derive(Debug)]
enum Backend {
    Memory(Memory),
    Programs(Box<Programs>),
}

impl Arbiter {
    /// A page in this process's memory. Processes report to it over a socket, and the controller speaks for them.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::Page`]
    pub fn in_memory(times: &Times) -> Result<Self, ArbiterError> {
        let memory = Memory::create(times).map_err(ArbiterError::Page)?;
        Ok(Self { backend: Backend::Memory(memory), repaired_at: 0 })
    }

    /// A page in a BPF map, kept by programs: those that a controller that has died has left, or new ones. Queues of
    /// processes that live are still there then.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::Programs`]: if there is another controller, or the kernel or this process's rights do not suffice.
    pub fn programs(times: &Times) -> Result<Self, ArbiterError> {
        Self::programs_pinned_at(Path::new(PINS), times)
    }

    /// As [`Self::programs`], apart from the controller of the machine: `folder` is in the BPF file system.
    ///
    /// # Errors
    ///
    /// As [`Self::programs`].
    pub fn programs_pinned_at(folder: &Path, times: &Times) -> Result<Self, ArbiterError> {
        let programs = Programs::start(folder, times)?;
        let repaired_at = programs.page.load(Word::EXHAUSTED);
        Ok(Self { backend: Backend::Programs(Box::new(programs)), repaired_at })
    }

    /// Who keeps the page.
    pub fn keeper(&self) -> Keeper {
        match &self.backend {
            Backend::Memory(_) => Keeper::Controller,
            Backend::Programs(_) => Keeper::Programs,
        }
    }

    /// What processes map, which they can only do to read.
    pub fn page_fd(&self) -> BorrowedFd<'_> {
        match &self.backend {
            Backend::Memory(memory) => memory.file.as_fd(),
            Backend::Programs(programs) => programs.page_fd(),
        }
    }

    /// The page.
    pub fn page(&self) -> &Page {
        match &self.backend {
            Backend::Memory(memory) => &memory.page,
            Backend::Programs(programs) => &programs.page,
        }
    }

    /// Something for one process to wait on: an epoll instance that becomes readable when masks change.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::Wake`]
    pub fn wake_fd(&self) -> Result<OwnedFd, ArbiterError> {
        let source = match &self.backend {
            Backend::Memory(memory) => memory.wakes.as_fd(),
            Backend::Programs(programs) => programs.events_fd(),
        };
        wake::edge(source).map_err(ArbiterError::Wake)
    }

    /// Whether [`Self::calls_fd`] is to signal from now on. Until then events wait for the next [`Self::drain`].
    pub fn listen(&mut self, listens: bool) {
        self.control(Control::Listen, 0, u64::from(listens), 0);
    }

    /// Signals, edge-triggered, that there are events about a device on which several levels have work, or about all.
    pub fn calls_fd(&self) -> BorrowedFd<'_> {
        match &self.backend {
            Backend::Memory(memory) => memory.calls.as_fd(),
            Backend::Programs(programs) => programs.calls_fd(),
        }
    }

    /// Moves what happened into `events`. When [`Word::EVENTS_LOST`] has grown, the page has to be read anew.
    pub fn drain(&mut self, events: &mut Vec<ArbiterEvent>) {
        match &mut self.backend {
            Backend::Memory(memory) => memory.drain(events),
            Backend::Programs(programs) => programs.drain(events),
        }
    }

    /// How to find the shim of a process, for [`Self::expect`]. That is apart because of the time that it takes.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::NoPrograms`]
    pub fn search(&self, pid: u32) -> Result<ShimSearch, ArbiterError> {
        match &self.backend {
            Backend::Memory(_) => Err(ArbiterError::NoPrograms),
            Backend::Programs(programs) => Ok(programs.search(pid)),
        }
    }

    /// Gets ready to hear a process with this shim. Returns the number that it is to show by [`Report::Join`].
    ///
    /// # Errors
    ///
    /// If no program will hear it: then the controller may [`Self::speak_for`] it.
    pub fn expect(&mut self, shim: ProbedShim) -> Result<u64, ArbiterError> {
        match &mut self.backend {
            Backend::Memory(_) => Err(ArbiterError::NoPrograms),
            Backend::Programs(programs) => programs.expect(shim).map_err(ArbiterError::Programs),
        }
    }

    /// Files that are probed as shims.
    pub fn probed(&self) -> Vec<FileId> {
        match &self.backend {
            Backend::Memory(_) => Vec::new(),
            Backend::Programs(programs) => programs.probed(),
        }
    }

    /// Takes the probe out of a file. Processes that have mapped it are heard no more.
    pub fn unprobe(&self, id: FileId) {
        match &self.backend {
            Backend::Memory(_) => {}
            Backend::Programs(programs) => programs.unprobe(id),
        }
    }

    /// The process that has shown a number, see [`xsched_protocol::arbiter_page::ArbiterChange::Joined`].
    pub fn joined(&self, number: u64) -> Option<Owner> {
        match &self.backend {
            Backend::Memory(_) => None,
            Backend::Programs(programs) => programs.joined(number).map(Owner),
        }
    }

    /// All processes that queues can be opened for.
    pub fn owners(&self) -> Vec<Owner> {
        let owners = match &self.backend {
            Backend::Memory(memory) => memory.owners(),
            Backend::Programs(programs) => programs.owners(),
        };
        owners.into_iter().map(Owner).collect()
    }

    /// A number is not expected any more. Whoever has shown it stays joined.
    pub fn forget(&mut self, number: u64) {
        match &mut self.backend {
            Backend::Memory(_) => {}
            Backend::Programs(programs) => programs.forget(number),
        }
    }

    /// Takes a process in whose reports arrive over a socket. [`Self::gone`] must follow when it has ended.
    pub fn speak_for(&mut self, pid: u32) -> Owner {
        let owner = Owner(u64::from(pid) | SPOKEN_FOR);
        // The id may have been another process's.
        self.gone(owner);
        match &mut self.backend {
            Backend::Memory(memory) => memory.admit(owner.0),
            Backend::Programs(programs) => programs.admit(owner.0),
        }
        owner
    }

    /// A report of a process that the controller speaks for; about a queue that is not its own, it changes nothing.
    pub fn report(&mut self, owner: Owner, operation: Report, slot: u32, argument: u64) {
        let is_own = owner.is_spoken_for() && self.page().queue(slot).owner == owner.0;
        if is_own || matches!(operation, Report::Expire | Report::Check) {
            match &self.backend {
                Backend::Memory(memory) => memory.speak(owner.0, operation, u64::from(slot), argument),
                Backend::Programs(programs) => {
                    programs.control(Control::Speak, u64::from(slot), operation as u64, argument);
                }
            }
        }
    }

    /// A process has ended or has given its queues up: they are closed, and it takes no room. One that programs hear may live
    /// on, and join again; when it ends, they do this themselves.
    pub fn gone(&mut self, owner: Owner) {
        match &mut self.backend {
            Backend::Memory(memory) => memory.dismiss(owner.0),
            Backend::Programs(programs) => programs.dismiss(owner.0),
        }
        self.control(Control::Gone, 0, owner.0, 0);
    }

    /// Opens a queue for a process.
    ///
    /// # Errors
    ///
    /// If the page is full or the process is gone.
    pub fn open(&mut self, owner: Owner, device_key: u64, level: u8) -> Result<Opened, ArbiterError> {
        let device = self.device(device_key)?;
        let page = self.page();
        let free = (0..QUEUE_MAX as u32).map(|slot| page.queue(slot)).find(|queue| !queue.word.is_open());
        let free = free.ok_or(ArbiterError::QueuesFull)?;
        // Before there is a queue for which anybody writes there.
        let gate = self.make_gate(free.slot);
        let generation = free.word.generation().wrapping_add(1);
        let word = QueueWord::new(generation, device, u64::from(level).min(LEVEL_COUNT as u64 - 1));
        self.control(Control::Open, u64::from(free.slot), word.0, owner.0);
        let queue = Queue { slot: free.slot, generation };
        self.check(queue).map_err(|_| ArbiterError::OwnerGone)?;
        Ok(Opened { queue, gate })
    }

    fn make_gate(&mut self, slot: u32) -> io::Result<OwnedFd> {
        match &mut self.backend {
            Backend::Memory(memory) => memory.make_gate(slot),
            Backend::Programs(programs) => programs.make_gate(slot),
        }
    }

    /// Closes a queue. One that is gone is closed.
    pub fn close(&mut self, queue: Queue) {
        self.control(Control::Close, u64::from(queue.slot), u64::from(queue.generation), 0);
    }

    /// Moves a queue to another level.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::QueueGone`]
    pub fn set_level(&mut self, queue: Queue, level: u8) -> Result<(), ArbiterError> {
        let level = u64::from(level).min(LEVEL_COUNT as u64 - 1);
        self.control(Control::SetLevel, u64::from(queue.slot), u64::from(queue.generation), level);
        self.check(queue)
    }

    /// A queue whose lease is over by now does not count as ready until it reports again.
    pub fn expire(&mut self, queue: Queue) {
        self.control(Control::Expire, u64::from(queue.slot), u64::from(queue.generation), 0);
    }

    /// The controller lives, and is obeyed. To be called several times within [`Times::silence`].
    pub fn heartbeat(&mut self) {
        self.control(Control::Heartbeat, 0, 0, 0);
        let exhausted = self.page().load(Word::EXHAUSTED);
        if exhausted != self.repaired_at {
            self.repaired_at = exhausted;
            for device in 0..DEVICE_MAX as u64 {
                self.control(Control::Repair, device, 0, 0);
            }
        }
    }

    /// Nobody is held back, until the next [`Self::heartbeat`].
    pub fn release(&mut self) {
        self.control(Control::Release, 0, 0, 0);
    }

    /// Changes lease and linger.
    pub fn set_times(&mut self, times: &Times) {
        self.control(Control::SetTimes, 0, times.lease_ns(), times.linger_ns());
    }

    /// A clean end: nobody is held back, and nothing is left behind.
    pub fn end(mut self) {
        self.release();
        match self.backend {
            Backend::Memory(_) => {}
            Backend::Programs(programs) => programs.end(),
        }
    }

    fn device(&mut self, key: u64) -> Result<u64, ArbiterError> {
        if key == 0 {
            return Err(ArbiterError::NoDevice(key));
        }
        if let Some(index) = self.page().device(key) {
            return Ok(index);
        }
        let index =
            self.page().device(0).or_else(|| self.unused_device()).ok_or(ArbiterError::DevicesFull)?;
        self.control(Control::AddDevice, index, key, 0);
        Ok(index)
    }

    /// The place of a device that nobody uses any more: anybody may name devices that there are not, and whoever comes
    /// next must find room.
    fn unused_device(&self) -> Option<u64> {
        let mut used = [false; DEVICE_MAX];
        for queue in self.page().queues() {
            used[queue.word.device() as usize] = true;
        }
        (0..DEVICE_MAX as u64)
            .find(|&index| !used[index as usize] && self.page().load(Word::exists(index)) == 0)
    }

    fn check(&self, queue: Queue) -> Result<(), ArbiterError> {
        let word = self.page().queue(queue.slot).word;
        let is_there = word.is_open() && word.generation() == queue.generation;
        if is_there { Ok(()) } else { Err(ArbiterError::QueueGone) }
    }

    fn control(&self, operation: Control, slot: u64, first: u64, second: u64) {
        match &self.backend {
            Backend::Memory(memory) => memory.control(operation, slot, first, second),
            Backend::Programs(programs) => programs.control(operation, slot, first, second),
        }
    }
}
