//! A minimal controller for tests: one arbiter page in memory, levels by the order of first use or by the token, and a
//! phantom process that is more urgent than all others when the test says so.
//!
//! It has no policy and trusts the shims' reports. It can misbehave on purpose, to test the shim's reaction: it stays silent,
//! or changes the phantom's state all the time.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, listen, recv, send, sendmsg, socket_with,
};
use rustix::time::{ClockId, clock_gettime};
use xsched_protocol::arbiter_page::{
    AtomicWords, CLAIM_MAX, ClaimWord, DEVICE_MAX, LEVEL_COUNT, PAGE_MAGIC, PAGE_VERSION, PAGE_WORDS, Page,
    Report, Word, Words, protocol,
};
use xsched_protocol::wire::{
    FromShim, Keeper, Opened, PACKET_LEN_MAX, PacketKind, Refusal, RefusalReason, SHIM_SOCKET, Usage, Welcome,
};
use zerocopy::IntoBytes;

use crate::execution_log::SpanNs;

/// The phantom's level, and the first level of processes.
const PHANTOM: u64 = 0;
const FIRST: u64 = 1;

/// How long the controller may be silent before shims ignore it, and how long a process that does not report counts as ready.
/// On a slow machine a thread of a test may not run for a second: deferred commands must stay deferred all the same.
const SILENCE: Duration = Duration::from_mins(10);
const LEASE: Duration = Duration::from_mins(10);

/// The same, once the controller is silent on purpose.
const SILENCE_ON_PURPOSE: Duration = Duration::from_millis(100);

/// How long a process that neither launches nor completes counts as ready while the phantom changes at random. It is as short
/// as the real controller's, since a program may block its own streams meanwhile.
const LEASE_AT_RANDOM: Duration = Duration::from_millis(50);

/// How long its thread may take for one step.
const PATIENCE: Duration = Duration::from_mins(1);

/// Shared with the test.
#[derive(Debug, Default)]
struct Shared {
    ends: AtomicBool,
    is_silent: AtomicBool,
    /// Whether the phantom shall have work.
    holds: AtomicBool,
    /// Whether the page shows that the phantom has work.
    is_holding: AtomicBool,
    /// The phantom's state changes at random if this is not 0, which is then a seed.
    flaps: AtomicU64,
    /// All processes are as urgent as the first.
    has_one_level: AtomicBool,
    processes: AtomicUsize,
    usage: Mutex<Vec<Usage>>,
    reports: AtomicU64,
    /// Claims of processes that were opened so far, that they have closed, and those that have work.
    claims: AtomicUsize,
    closed: AtomicUsize,
    ready: AtomicUsize,
    urgent: Mutex<Urgent>,
    /// The device of each claim that was opened.
    devices: Mutex<Vec<u64>>,
}

/// When the first level of processes had work.
#[derive(Debug, Default)]
struct Urgent {
    spans: Vec<SpanNs>,
    since_ns: Option<u64>,
    /// The controller was silent for so long that shims may have ignored the page; no span is recorded since.
    is_over: bool,
}

/// A controller that runs until it is dropped.
#[derive(Debug)]
pub struct SmallController {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A controller of another version, which refuses one process and ends.
///
/// # Errors
///
/// Those of the system calls.
pub fn refuse_one(folder: &Path) -> io::Result<()> {
    let path = folder.join(SHIM_SOCKET);
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    bind(&listener, &SocketAddrUnix::new(&path)?)?;
    listen(&listener, 1)?;
    let socket = accept_with(&listener, SocketFlags::CLOEXEC)?;
    recv(&socket, &mut [0; PACKET_LEN_MAX], rustix::net::RecvFlags::empty())?;
    let refusal = Refusal { kind: PacketKind::Refusal as u32, reason: RefusalReason::Version as u32 };
    send(&socket, refusal.as_bytes(), SendFlags::empty())?;
    std::fs::remove_file(path)
}

impl SmallController {
    /// Listens in this folder: programs find it by `XSCHED_SOCKET_DIR`. The first process to use a device is the most urgent,
    /// and so on.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    ///
    /// # Panics
    ///
    /// In its own thread, if a shim sends a malformed packet.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut controller = Controller::new(folder, Arc::clone(&shared))?;
        let thread = thread::spawn(move || {
            while !controller.shared.ends.load(Ordering::SeqCst) {
                controller.step().expect("the controller's system calls succeed");
            }
        });
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Gives the phantom work, so that no other process may launch; `false` takes the work away. It returns once the page
    /// shows this. Every launch of a process that has reported before reads the page.
    ///
    /// # Panics
    ///
    /// If the controller's thread has panicked, or takes a minute.
    pub fn hold(&self, holds: bool) {
        self.shared.holds.store(holds, Ordering::SeqCst);
        let deadline = Instant::now() + PATIENCE;
        while self.shared.is_holding.load(Ordering::SeqCst) != holds {
            assert!(Instant::now() < deadline, "the controller's thread does nothing");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Gives the phantom work and takes it away at random, again and again.
    pub fn flap(&self, seed: u64) {
        self.shared.flaps.store(seed | 1, Ordering::SeqCst);
    }

    /// Puts all processes on the first level from now on: they limit nothing, and only the phantom is before them.
    pub fn keep_one_level(&self) {
        self.shared.has_one_level.store(true, Ordering::SeqCst);
    }

    /// Stops all work and all messages; `false` resumes them.
    pub fn be_silent(&self, is_silent: bool) {
        self.shared.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Processes that have connected so far.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.shared.processes.load(Ordering::SeqCst)
    }

    /// Reports so far.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.shared.reports.load(Ordering::SeqCst)
    }

    /// Claims of processes that were opened so far.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.shared.claims.load(Ordering::SeqCst)
    }

    /// Claims that processes have closed.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.shared.closed.load(Ordering::SeqCst)
    }

    /// The key of the device of each claim that was opened, in their order.
    ///
    /// # Panics
    ///
    /// If the controller's thread has panicked.
    #[must_use]
    pub fn devices(&self) -> Vec<u64> {
        self.shared.devices.lock().expect("no holder panics").clone()
    }

    /// Claims of processes that have work now.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.shared.ready.load(Ordering::SeqCst)
    }

    /// The spans of `CLOCK_BOOTTIME` in which the page showed that the first process to use a device has work: each lies within
    /// the span in which it had. The flag says that this thread did not run for too long, so that processes may have ignored
    /// the page; spans after that are missing.
    ///
    /// # Panics
    ///
    /// If the controller's thread has panicked.
    #[must_use]
    pub fn urgent_spans(&self) -> (Vec<SpanNs>, bool) {
        let urgent = self.shared.urgent.lock().expect("no holder panics");
        (urgent.spans.clone(), urgent.is_over)
    }

    /// The last usage report of each claim.
    ///
    /// # Panics
    ///
    /// If the controller's thread has panicked.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        self.shared.usage.lock().expect("no holder panics").clone()
    }
}

impl Urgent {
    /// Ends the span: the process had work at least until then.
    fn end(&mut self, at_ns: u64) {
        let since_ns = self.since_ns.take();
        self.spans.extend(since_ns.filter(|since_ns| *since_ns < at_ns).map(|since_ns| (since_ns, at_ns)));
    }
}

impl Drop for SmallController {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // if it has panicked, the message is printed already
        }
    }
}

/// A page in memory.
struct Memory {
    file: File,
    words: AtomicWords<'static>,
}

impl Memory {
    fn new() -> io::Result<Self> {
        let file = memfd_create("page", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        file.set_len(size_of::<Page>() as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, as long as the page, that is never unmapped.
        let page = unsafe {
            let at = mmap(std::ptr::null_mut(), size_of::<Page>(), access, MapFlags::SHARED, &file, 0)?;
            &*at.cast::<[AtomicU64; PAGE_WORDS]>()
        };
        let words = AtomicWords::new(page);
        words.store(Word::MAGIC, PAGE_MAGIC);
        words.store(Word::VERSION, PAGE_VERSION);
        words.store(Word::SILENCE, SILENCE.as_nanos() as u64);
        words.store(Word::LEASE, LEASE.as_nanos() as u64);
        words.store(Word::LINGER, 200_000);
        Ok(Self { file, words })
    }
}

struct Client {
    socket: OwnedFd,
    owner: u64,
    epoll: OwnedFd,
    slots: Vec<u64>,
}

struct Controller {
    shared: Arc<Shared>,
    listener: OwnedFd,
    bell: OwnedFd,
    memory: Memory,
    clients: Vec<Client>,
    level: u64,
    random: u64,
    holds: bool,
    beat_ns: u64,
}

impl Controller {
    fn new(folder: &Path, shared: Arc<Shared>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let path = folder.join(SHIM_SOCKET);
        let _ = std::fs::remove_file(&path); // a predecessor's
        bind(&listener, &SocketAddrUnix::new(path)?)?;
        listen(&listener, 16)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let memory = Memory::new()?;
        protocol::obey(&memory.words, now_ns());
        Ok(Self {
            shared,
            listener,
            bell,
            memory,
            clients: Vec::new(),
            level: FIRST,
            random: 0,
            holds: false,
            beat_ns: now_ns(),
        })
    }

    fn step(&mut self) -> io::Result<()> {
        let listening = PollFd::new(&self.listener, PollFlags::IN);
        let mut polled = vec![listening];
        polled.extend(self.clients.iter().map(|client| PollFd::new(&client.socket, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: 200_000 };
        poll(&mut polled, Some(&timeout))?;
        let is_silent = self.shared.is_silent.load(Ordering::SeqCst);
        let silence = if is_silent { SILENCE_ON_PURPOSE } else { SILENCE };
        self.memory.words.store(Word::SILENCE, silence.as_nanos() as u64);
        let is_random = self.shared.flaps.load(Ordering::SeqCst) != 0;
        let lease = if is_random { LEASE_AT_RANDOM } else { LEASE };
        self.memory.words.store(Word::LEASE, lease.as_nanos() as u64);
        if is_silent {
            thread::sleep(Duration::from_millis(1));
            return Ok(());
        }
        self.beat();
        self.accept()?;
        self.receive()?;
        self.play_phantom();
        self.count_ready();
        Ok(())
    }

    fn beat(&mut self) {
        let now_ns = now_ns();
        if now_ns - self.beat_ns > SILENCE.as_nanos() as u64 / 10 * 9 {
            self.lock_urgent().end(self.beat_ns);
            self.lock_urgent().is_over = true;
        }
        protocol::obey(&self.memory.words, now_ns);
        self.beat_ns = now_ns;
    }

    fn lock_urgent(&self) -> MutexGuard<'_, Urgent> {
        self.shared.urgent.lock().expect("no holder panics")
    }

    /// Changes the page, and records what that means for the first level.
    fn change<T>(&self, change: impl FnOnce(&AtomicWords<'static>) -> T) -> T {
        let words = &self.memory.words;
        let before_ns = now_ns();
        let result = change(words);
        let after_ns = now_ns();
        let is_ready = |device| words.load(Word::ready(device)) & 1 << FIRST != 0;
        let mut urgent = self.lock_urgent();
        if !(0..DEVICE_MAX as u64).any(is_ready) {
            urgent.end(before_ns);
        } else if !urgent.is_over {
            urgent.since_ns.get_or_insert(after_ns);
        }
        result
    }

    /// Claims of processes that have work.
    fn count_ready(&self) {
        let words = &self.memory.words;
        let slots = self.clients.iter().flat_map(|client| &client.slots);
        let ready = slots.filter(|slot| ClaimWord(words.load(Word::claim(**slot))).is_ready()).count();
        self.shared.ready.store(ready, Ordering::SeqCst);
    }

    fn accept(&mut self) -> io::Result<()> {
        let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else {
            return Ok(());
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &self.bell,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        let owner = self.shared.processes.fetch_add(1, Ordering::SeqCst) as u64 + 1;
        self.clients.push(Client { socket, owner, epoll, slots: Vec::new() });
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut packet = [0; PACKET_LEN_MAX + 1];
        for index in 0..self.clients.len() {
            loop {
                let len = match recv(
                    &self.clients[index].socket,
                    &mut packet[..],
                    rustix::net::RecvFlags::DONTWAIT,
                ) {
                    Ok((0, _)) => break self.forget(index),
                    Ok((len, _)) => len,
                    Err(_) => break,
                };
                let packet = FromShim::parse(&packet[..len]).expect("shims send well-formed packets");
                match self.answer(index, &packet) {
                    // The process has ended without waiting for an answer.
                    Err(error) if is_end(&error) => break self.forget(index),
                    answered => answered?,
                }
            }
        }
        self.clients.retain(|client| client.owner != 0);
        Ok(())
    }

    /// The process has ended.
    fn forget(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let (slots, owner) = (std::mem::take(&mut client.slots), std::mem::take(&mut client.owner));
        for slot in slots {
            let _ = self.change(|words| protocol::close_of(words, slot, owner));
        }
        self.ring();
    }

    fn answer(&mut self, index: usize, packet: &FromShim) -> io::Result<()> {
        match packet {
            FromShim::Hello(_) => self.welcome(index),
            FromShim::OpenClaim(asked) => {
                self.shared.devices.lock().expect("no holder panics").push(asked.device);
                let device = self.device(asked.device);
                let level = self.level;
                // After the last level, the first one is next.
                self.level = FIRST + (level + 1 - FIRST) % (LEVEL_COUNT as u64 - FIRST);
                let has_one_level = self.shared.has_one_level.load(Ordering::SeqCst);
                let level = if has_one_level { FIRST } else { level };
                self.shared.claims.fetch_add(1, Ordering::SeqCst);
                let owner = self.clients[index].owner;
                let (slot, word) = self.open(device, level, owner);
                self.clients[index].slots.push(slot);
                let opened = Opened {
                    kind: PacketKind::Opened as u32,
                    request: asked.request,
                    slot: slot as u32,
                    generation: word.generation(),
                    keeper: Keeper::Controller as u32,
                    brings: Opened::WAKE,
                };
                let client = &self.clients[index];
                send_with(&client.socket, opened.as_bytes(), client.epoll.as_fd())?;
                self.ring();
                Ok(())
            }
            FromShim::Reported(reported) => {
                self.shared.reports.fetch_add(1, Ordering::SeqCst);
                self.apply(u64::from(reported.slot), reported.operation, reported.argument as u32);
                Ok(())
            }
            FromShim::Usage(usage) => {
                let mut all = self.shared.usage.lock().expect("no holder panics");
                all.retain(|known| (known.slot, known.generation) != (usage.slot, usage.generation));
                all.push(*usage);
                Ok(())
            }
            // This controller has no rules, and shows no origins.
            FromShim::Domain(_)
            | FromShim::KernelName(_)
            | FromShim::Settings(_)
            | FromShim::OriginName(_)
            | FromShim::Hints(_)
            | FromShim::OriginUsage(_) => Ok(()),
        }
    }

    fn apply(&self, slot: u64, operation: u64, generation: u32) {
        let caller = protocol::Caller::Controller;
        let changed = self.change(|words| match Report::from_number(operation) {
            Some(Report::Ready) => protocol::ready(words, slot, generation, caller, now_ns()),
            Some(Report::Idle) => protocol::idle(words, slot, generation, caller),
            Some(Report::Expire) => protocol::expire(words, slot, generation, now_ns()),
            Some(Report::Close) => {
                self.shared.closed.fetch_add(1, Ordering::SeqCst);
                protocol::close(words, slot, generation, caller)
            }
            // Claims of this controller have no gates.
            Some(Report::Join | Report::Check | Report::Gate) | None => Err(protocol::Refusal::Unchanged),
        });
        if changed.is_ok_and(|change| change.wakes.processes) {
            self.ring();
        }
    }

    fn welcome(&self, index: usize) -> io::Result<()> {
        let welcome = Welcome {
            kind: PacketKind::Welcome as u32,
            keeper: Keeper::Controller as u32,
            epoch: 1,
            token: 0,
            in_flight_ns: 0,
            preemption_mode: 2,
            observe: 0,
            poll_below_ns: 0,
        };
        send_with(&self.clients[index].socket, welcome.as_bytes(), self.memory.file.as_fd())
    }

    /// Index of a device in the page; the phantom has a claim on each.
    fn device(&mut self, key: u64) -> u64 {
        let words = self.memory.words;
        let index = (0..DEVICE_MAX as u64).find(|&index| [0, key].contains(&words.load(Word::key(index))));
        let index = index.expect("tests have few devices");
        if words.load(Word::key(index)) == 0 {
            words.store(Word::key(index), key);
            let _ = self.open(index, PHANTOM, u64::MAX); // found by its owner
        }
        index
    }

    fn open(&self, device: u64, level: u64, owner: u64) -> (u64, ClaimWord) {
        let words = &self.memory.words;
        let is_free = |slot: &u64| !ClaimWord(words.load(Word::claim(*slot))).is_open();
        let slot = (0..CLAIM_MAX as u64).find(is_free).expect("tests have few claims");
        let generation = ClaimWord(words.load(Word::claim(slot))).generation().wrapping_add(1);
        let word = ClaimWord::new(generation, device, level);
        protocol::open(words, slot, word, owner, || true).expect("the slot is free");
        (slot, word)
    }

    fn play_phantom(&mut self) {
        let seed = self.shared.flaps.load(Ordering::SeqCst);
        let wanted = if seed == 0 {
            self.shared.holds.load(Ordering::SeqCst)
        } else {
            if self.random == 0 {
                self.random = seed;
            }
            // Marsaglia's xorshift.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.random & 1 == 0
        };
        let words = &self.memory.words;
        let caller = protocol::Caller::Process(u64::MAX);
        for slot in 0..protocol::slots(words) {
            let word = ClaimWord(words.load(Word::claim(slot)));
            if words.load(Word::owner(slot)) == u64::MAX && word.is_open() {
                let generation = word.generation();
                let _ = if wanted {
                    protocol::ready(words, slot, generation, caller, now_ns())
                } else {
                    protocol::idle(words, slot, generation, caller)
                };
            }
        }
        if wanted != self.holds {
            self.holds = wanted;
            self.ring();
        }
        self.shared.is_holding.store(wanted, Ordering::SeqCst);
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes()); // a full counter wakes readers too
    }
}

/// Whether the error means that the peer has ended.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Now, on the page's clock.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn send_with(socket: &OwnedFd, packet: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
