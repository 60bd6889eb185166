//! The controller's operations on the arbiter page, for both kinds of keepers.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use xsched_protocol::{
    arbiter_page::{
        ArbiterEvent, CLAIM_MAX, ClaimWord, Control, DEVICE_MAX, LEVEL_COUNT, PROXIED, Report, Word,
    },
    wire::Keeper,
};
use xsched_symbols::FileId;

use crate::memory::Memory;
use crate::page::Page;
use crate::programs::{PINS, ProbedShim, Programs, ProgramsError, ShimSearch};
use crate::times::Times;
use crate::wake;

/// Why an operation of the arbiter failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum ArbiterError {
    #[error("cannot create the arbiter page: {0}")]
    Page(#[source] io::Error),
    #[error("cannot wait for changes of the arbiter page: {0}")]
    Wake(#[source] io::Error),
    #[error("the arbiter page is full: it has {DEVICE_MAX} devices")]
    DevicesFull,
    #[error("the arbiter page is full: it has {CLAIM_MAX} claims")]
    ClaimsFull,
    /// The claim was closed, by the end of its process or otherwise.
    #[error("the claim is closed")]
    ClaimGone,
    #[error("the process has ended or has not joined")]
    OwnerGone,
    /// A device's key must not be zero.
    #[error("{0:#x} is not the key of a device")]
    NoDevice(u64),
    /// The controller keeps the page, so no program receives reports.
    #[error("no programs are loaded")]
    NoPrograms,
    #[error(transparent)]
    Programs(#[from] ProgramsError),
}

/// A process that has joined, so that claims can be opened for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u64);

impl Owner {
    /// The process id in the initial pid namespace if programs receive its reports, else the number given to [`Arbiter::speak_for`].
    pub const fn id(self) -> u32 {
        self.0 as u32
    }

    /// Whether the controller must report for it, because no program receives its reports.
    pub const fn is_proxied(self) -> bool {
        self.0 & PROXIED != 0
    }
}

/// Names a claim that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimName {
    /// Its slot in the page.
    pub slot: u32,
    /// The number of the claim among those that the slot has had.
    pub generation: u32,
}

/// A claim that was opened, and its gate page.
#[derive(Debug)]
pub struct Opened {
    /// The claim.
    pub claim: ClaimName,
    /// The gate page, see [`xsched_protocol::arbiter_page::GATE_SIZE`], which the process maps readable and writable. Or the
    /// reason why there is none; then the process controls its gate itself. The caller may close the descriptor.
    pub gate: io::Result<OwnedFd>,
}

/// The arbiter page and its keeper.
#[derive(Debug)]
pub struct Arbiter {
    backend: Backend,
    /// The value of [`Word::EXHAUSTED`] when the masks were last repaired.
    repaired_at: u64,
}

#[derive(Debug)]
enum Backend {
    Memory(Memory),
    Programs(Box<Programs>),
}

/// The same operation of either keeper.
macro_rules! both {
    ($backend:expr, $keeper:ident => $operation:expr) => {
        match $backend {
            Backend::Memory($keeper) => $operation,
            Backend::Programs($keeper) => $operation,
        }
    };
}

impl Arbiter {
    /// A page in this process's memory. Processes report over a socket, and the controller applies their reports.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::Page`]
    pub fn in_memory(times: &Times) -> Result<Self, ArbiterError> {
        let memory = Memory::create(times).map_err(ArbiterError::Page)?;
        Ok(Self { backend: Backend::Memory(memory), repaired_at: 0 })
    }

    /// A page in a BPF map, kept by programs: those of a controller that has ended, or new ones. When it takes over programs,
    /// the claims of running processes are kept.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::Programs`]: if there is another controller, or if the kernel or this process's permissions are not
    /// sufficient.
    pub fn programs(times: &Times) -> Result<Self, ArbiterError> {
        Self::programs_pinned_at(Path::new(PINS), times)
    }

    /// Like [`Self::programs`], but independent of the machine's controller: `folder` is in the BPF file system.
    ///
    /// # Errors
    ///
    /// See [`Self::programs`].
    pub fn programs_pinned_at(folder: &Path, times: &Times) -> Result<Self, ArbiterError> {
        let programs = Programs::start(folder, times)?;
        let repaired_at = programs.page.load(Word::EXHAUSTED);
        Ok(Self { backend: Backend::Programs(Box::new(programs)), repaired_at })
    }

    /// The keeper of the page.
    pub fn keeper(&self) -> Keeper {
        match &self.backend {
            Backend::Memory(_) => Keeper::Controller,
            Backend::Programs(_) => Keeper::Programs,
        }
    }

    /// The descriptor of the page. Processes can map it only for reading.
    pub fn page_fd(&self) -> BorrowedFd<'_> {
        match &self.backend {
            Backend::Memory(memory) => memory.file.as_fd(),
            Backend::Programs(programs) => programs.page_fd(),
        }
    }

    /// The page.
    pub fn page(&self) -> &Page {
        both!(&self.backend, keeper => &keeper.page)
    }

    /// A new epoll instance for one process to wait on. It becomes readable when masks or levels change on the devices of these open
    /// claims. Once the process has it, nothing must be added: see `wake.rs`.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::Wake`]
    pub fn wake_fd(&mut self, claims: &[ClaimName]) -> Result<OwnedFd, ArbiterError> {
        let instance = wake::instance().map_err(ArbiterError::Wake)?;
        for claim in claims {
            let device = self.page().claim(claim.slot).word.device();
            let source = both!(&mut self.backend, keeper => keeper.wake_ups(device));
            source.and_then(|source| wake::add(instance.as_fd(), source)).map_err(ArbiterError::Wake)?;
        }
        Ok(instance)
    }

    /// Whether a claim is open.
    pub fn is_open(&self, claim: ClaimName) -> bool {
        self.check(claim).is_ok()
    }

    /// Sets whether [`Self::calls_fd`] signals. If not, events wait for the next [`Self::drain`].
    pub fn listen(&mut self, listens: bool) {
        self.control(Control::Listen, 0, u64::from(listens), 0);
    }

    /// Signals, edge-triggered, events of a device on which several levels have work, and events that concern all devices.
    pub fn calls_fd(&self) -> BorrowedFd<'_> {
        match &self.backend {
            Backend::Memory(memory) => memory.calls.as_fd(),
            Backend::Programs(programs) => programs.events_fd(),
        }
    }

    /// Moves pending events to `events`. If [`Word::EVENTS_LOST`] has grown, the caller must read the page again.
    pub fn drain(&mut self, events: &mut Vec<ArbiterEvent>) {
        both!(&mut self.backend, keeper => keeper.drain(events));
    }

    /// A search for the shim of a process, for [`Self::expect`]. It is separate because it may take long.
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

    /// Prepares for reports of a process with this shim. Returns the token that the process must send with [`Report::Join`].
    ///
    /// # Errors
    ///
    /// If no program can receive its reports. Then the controller may use [`Self::speak_for`].
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

    /// Removes the probe from a file. Reports of processes that have mapped the file are not received any more.
    pub fn unprobe(&self, id: FileId) {
        match &self.backend {
            Backend::Memory(_) => {}
            Backend::Programs(programs) => programs.unprobe(id),
        }
    }

    /// The process that has joined with a token, see [`xsched_protocol::arbiter_page::ArbiterChange::Joined`].
    pub fn joined(&self, token: u64) -> Option<Owner> {
        match &self.backend {
            Backend::Memory(_) => None,
            Backend::Programs(programs) => programs.joined(token).map(Owner),
        }
    }

    /// All processes that have joined.
    pub fn owners(&self) -> Vec<Owner> {
        let owners = both!(&self.backend, keeper => keeper.owners());
        owners.into_iter().map(Owner).collect()
    }

    /// A token is not expected any more. A process that has joined with it stays joined.
    pub fn forget(&mut self, token: u64) {
        match &mut self.backend {
            Backend::Memory(_) => {}
            Backend::Programs(programs) => programs.forget(token),
        }
    }

    /// Adds a process that reports over a socket, by a number that no other such process has. When its connection has ended,
    /// [`Self::gone`] must be called.
    pub fn speak_for(&mut self, number: u32) -> Owner {
        let owner = Owner(u64::from(number) | PROXIED);
        // The number may have belonged to another process.
        self.gone(owner);
        both!(&mut self.backend, keeper => keeper.admit(owner.0));
        owner
    }

    /// Applies a report of a process that reports over a socket. A report about another process's claim changes nothing.
    pub fn report(&mut self, owner: Owner, operation: Report, slot: u32, argument: u64) {
        let is_own = owner.is_proxied() && self.page().claim(slot).owner == owner.0;
        if is_own || matches!(operation, Report::Expire | Report::Check) {
            match &self.backend {
                Backend::Memory(memory) => memory.speak(owner.0, operation, u64::from(slot), argument),
                Backend::Programs(programs) => {
                    programs.control(Control::ProxyReport, u64::from(slot), operation as u64, argument);
                }
            }
        }
    }

    /// A process has ended or has given up its claims: they are closed, and their slots are free. A process of which programs
    /// receive the reports may continue, and join again; programs do this themselves when it ends.
    pub fn gone(&mut self, owner: Owner) {
        both!(&mut self.backend, keeper => keeper.dismiss(owner.0));
        self.control(Control::Gone, 0, owner.0, 0);
    }

    /// Opens a claim for a process.
    ///
    /// # Errors
    ///
    /// If the page is full, or the process has not joined or has ended.
    pub fn open(&mut self, owner: Owner, device_key: u64, level: u8) -> Result<Opened, ArbiterError> {
        let device = self.device(device_key)?;
        let free = self.page().free_slot(device).ok_or(ArbiterError::ClaimsFull)?;
        if free.is_block_empty {
            self.control(Control::ClearBlock, u64::from(free.claim.slot), 0, 0);
        }
        let free = free.claim;
        // Before the claim is open, because changes of masks write to the gates of open claims.
        let gate = self.make_gate(free.slot);
        let generation = free.word.generation().wrapping_add(1);
        let word = ClaimWord::new(generation, device, u64::from(level).min(LEVEL_COUNT as u64 - 1));
        self.control(Control::Open, u64::from(free.slot), word.0, owner.0);
        let claim = ClaimName { slot: free.slot, generation };
        self.check(claim).map_err(|_| ArbiterError::OwnerGone)?;
        Ok(Opened { claim, gate })
    }

    fn make_gate(&mut self, slot: u32) -> io::Result<OwnedFd> {
        both!(&mut self.backend, keeper => keeper.make_gate(slot))
    }

    /// Closes a claim, if it is still open.
    pub fn close(&mut self, claim: ClaimName) {
        self.control(Control::Close, u64::from(claim.slot), u64::from(claim.generation), 0);
    }

    /// Moves a claim to another level.
    ///
    /// # Errors
    ///
    /// [`ArbiterError::ClaimGone`]
    pub fn set_level(&mut self, claim: ClaimName, level: u8) -> Result<(), ArbiterError> {
        let level = u64::from(level).min(LEVEL_COUNT as u64 - 1);
        self.control(Control::SetLevel, u64::from(claim.slot), u64::from(claim.generation), level);
        self.check(claim)
    }

    /// Ends the lease of a claim if it has expired: the claim is not ready until it reports again.
    pub fn expire(&mut self, claim: ClaimName) {
        self.control(Control::Expire, u64::from(claim.slot), u64::from(claim.generation), 0);
    }

    /// The controller's heartbeat: the page is in force. Must be called several times within [`Times::silence`].
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

    /// All processes may launch, until the next [`Self::heartbeat`].
    pub fn release(&mut self) {
        self.control(Control::Release, 0, 0, 0);
    }

    /// Changes lease and linger.
    pub fn set_times(&mut self, times: &Times) {
        self.control(Control::SetTimes, 0, times.lease_ns(), times.linger_ns());
    }

    /// Ends cleanly: all processes may launch, and no pins are left.
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

    /// The index of a device without claims. Processes may name devices that do not exist, so the entries of unused devices
    /// are reused.
    fn unused_device(&self) -> Option<u64> {
        let mut used = [false; DEVICE_MAX];
        for claim in self.page().claims() {
            used[claim.word.device() as usize] = true;
        }
        (0..DEVICE_MAX as u64).find(|&index| !used[index as usize] && !self.page().is_used(index))
    }

    fn check(&self, claim: ClaimName) -> Result<(), ArbiterError> {
        let word = self.page().claim(claim.slot).word;
        let is_open = word.is_open() && word.generation() == claim.generation;
        if is_open { Ok(()) } else { Err(ArbiterError::ClaimGone) }
    }

    fn control(&self, operation: Control, slot: u64, first: u64, second: u64) {
        both!(&self.backend, keeper => keeper.control(operation, slot, first, second));
    }
}
