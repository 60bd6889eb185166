//! Gates: words of memory that a stream waits for (`cuStreamWaitValue32`), which the arbiter or the host opens and closes.
//!
//! The word lies in the arbiter's page; each context has a mapping of its own registered. If the driver refuses that, or no
//! mapping is left, the word lies in memory of the process's own, and the process closes the gate itself.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_protocol::arbiter_page::{GATE_KEPT_OPEN, GATE_OPEN, GATE_SIZE};
use xsched_xqueue::{GatePage, Trial, Tried, TriedGate};

use crate::counters::{Counter, count};
use crate::driver::{self, Context, Event, Registration};
use crate::green;
use crate::marker::CudaStream;
use crate::registration::{Registrations, Unregistered};

const CLOSED: u64 = 0;
const OPEN: u64 = GATE_KEPT_OPEN;

// The driver compares the word's lower half with 1, as signed numbers.
const _: () = assert!(GATE_OPEN < 1 << 31 && cfg!(target_endian = "little"));

/// A word of memory that is never freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CudaGate {
    host: NonNull<AtomicU64>,
    /// Its address on the device.
    device: u64,
}

// SAFETY: an atomic word that any thread may use.
unsafe impl Send for CudaGate {}

impl CudaGate {
    /// A word of a page whose address on the device is given.
    fn within(page: &'static GatePage, word: &'static AtomicU64, start: u64) -> Self {
        let host = NonNull::from(word);
        let offset = host.addr().get() - page.start().addr().get();
        Self { host, device: start + offset as u64 }
    }

    pub(crate) fn set(self, is_open: bool) {
        self.word().store(if is_open { OPEN } else { CLOSED }, Ordering::Release);
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: mapped for good.
        unsafe { self.host.as_ref() }
    }

    fn is_open(self) -> bool {
        self.word().load(Ordering::Acquire) != CLOSED
    }

    /// Makes a stream wait for the gate. False if the driver refuses.
    pub(crate) fn put_before(self, stream: CudaStream) -> bool {
        stream.within(|| Some(driver::wait_value(stream.handle(), self.device))).unwrap_or(false)
    }
}

/// A word in a page of the process's own, which is never unmapped: memory of the driver's would go with the context.
fn own_word() -> Option<NonNull<AtomicU64>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let page = unsafe { libc::mmap(ptr::null_mut(), GATE_SIZE, access, kind, -1, 0) };
    if page == libc::MAP_FAILED { None } else { NonNull::new(page.cast()) }
}

/// A gate that is being tried.
pub(crate) struct CudaTrial {
    /// The context of the streams that the gate is for, and the one through which it is tried.
    owner: Context,
    context: Context,
    is_shared: bool,
    gate: CudaGate,
    trial: Trial<TriedWord>,
}

/// A gate in a page, for the current context, and the word to try it with.
fn in_page(
    page: &'static GatePage,
    registrations: &Registrations,
    context: Context,
) -> Result<(CudaGate, CudaGate), Unregistered> {
    let start = registrations.register(page, context).inspect_err(|why| {
        count(match why {
            Unregistered::UsedUp => Counter::PageUsedUp,
            Unregistered::Refused => Counter::RefusedPage,
        });
    })?;
    let within = |word| CudaGate::within(page, word, start);
    Ok((within(page.word()), within(page.trial())))
}

/// The same in memory of the process's own.
fn in_own_memory() -> Option<(CudaGate, CudaGate)> {
    let host = own_word()?;
    let is_registered = driver::register(host.cast(), GATE_SIZE) == Registration::New;
    let gate = CudaGate { host, device: driver::device_address(host.cast()).filter(|_| is_registered)? };
    Some((gate, gate))
}

/// The word that a trial opens and closes.
struct TriedWord(CudaGate);

struct TrialStream {
    stream: usize,
    event: Option<Event>,
}

impl CudaTrial {
    /// A gate for a stream's context, in the page or in memory of the process's own.
    pub(crate) fn new(
        CudaStream { context: owner, .. }: CudaStream,
        page: Option<&'static GatePage>,
        registrations: &Registrations,
    ) -> Result<Self, Unregistered> {
        let context = green::base(owner);
        let made = driver::within(context, || {
            Some(match page {
                Some(page) => in_page(page, registrations, context),
                None => in_own_memory().ok_or(Unregistered::Refused),
            })
        });
        let (gate, word) = made.unwrap_or(Err(Unregistered::Refused))?;
        let trial = Trial::new(TriedWord(word));
        Ok(Self { owner, context, is_shared: page.is_some(), gate, trial })
    }

    /// The context of the streams that the gate is for.
    pub(crate) fn owner(&self) -> Context {
        self.owner
    }

    /// Whether the arbiter closes the gate.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Takes the next step if that is possible without waiting.
    pub(crate) fn look(&mut self) -> Tried<CudaGate> {
        let looked = driver::within(self.context, || Some(self.trial.look())).unwrap_or(Tried::Refused);
        match looked {
            Tried::Works(()) => count(if self.is_shared { Counter::SharedGate } else { Counter::OwnGate }),
            Tried::Refused => count(Counter::FailedTrial),
            Tried::Pending { .. } | Tried::Undecided => {}
        }
        looked.of(self.gate)
    }

    /// Lets the trial's stream go on, and other streams behind it. A store to memory.
    pub(crate) fn release(&mut self) {
        self.trial.release();
    }
}

impl TriedGate for TriedWord {
    type Stream = TrialStream;

    fn set(&self, is_open: bool) {
        self.0.set(is_open);
    }

    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    fn create_stream(&self) -> Option<TrialStream> {
        Some(TrialStream { stream: driver::create_stream()?, event: driver::create_event() })
    }

    fn record(&self, stream: &TrialStream) -> bool {
        stream.event.is_some_and(|event| driver::record(event, stream.stream))
    }

    fn wait(&self, stream: &TrialStream) -> bool {
        driver::wait_value(stream.stream, self.0.device)
    }

    fn is_pending(&self, stream: &TrialStream) -> bool {
        stream.event.is_some_and(driver::is_pending)
    }

    fn is_done(&self, stream: &TrialStream) -> Option<bool> {
        driver::is_stream_done(stream.stream)
    }

    fn destroy(&self, stream: TrialStream) {
        if let Some(event) = stream.event {
            driver::destroy_event(event);
        }
        driver::destroy_stream(stream.stream);
    }
}
