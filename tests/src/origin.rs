//! A process that asks for verdicts on its calls, without the shim. It joins the controller, maps its verdict page, and calls
//! the function that the BPF programs probe from the end of a call chain.

use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use xsched_protocol::arbiter_page::Report;
use xsched_protocol::verdict::{VERDICT_SLOTS, Verdict, VerdictPage, VerdictSlot};
use xsched_protocol::wire::{Domain, FromController, KernelName, PACKET_LEN_MAX};
use zerocopy::{Immutable, IntoBytes};

use crate::arbiter::xsched_arbiter_report;
use crate::peer::greeted;

/// How long a client waits for a verdict.
const PATIENCE: Duration = Duration::from_secs(20);

/// The same function as the shim's: it returns at once, and starts with a one-byte no-operation.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn xsched_classify(_slot: u64, _ticket: u64, _subject: u64, _rip: u64, _rsp: u64, _rbp: u64) {
    core::arch::naked_asm!("nop", "ret")
}

/// A request for a verdict.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Question {
    /// The slot for the verdict.
    pub slot: u64,
    /// The verdict's slot repeats it.
    pub ticket: u64,
    /// A [`Subject`](xsched_protocol::verdict::Subject).
    pub subject: u64,
    /// Output: the return address.
    pub caller: u64,
}

/// The innermost function of a chain: asks with the registers of its caller, as a hook does.
#[unsafe(naked)]
pub extern "C" fn ask_here(_next: *const Step, _question: *mut Question) -> u64 {
    core::arch::naked_asm!(
        "mov r10, rsi",
        "mov rdi, [r10]",
        "mov rsi, [r10 + 8]",
        "mov rdx, [r10 + 16]",
        "mov rcx, [rsp]",
        "mov [r10 + 24], rcx",
        "lea r8, [rsp + 8]",
        "mov r9, rbp",
        "xor eax, eax",
        "jmp {classify}",
        classify = sym xsched_classify,
    )
}

/// A function that calls the next one; see `tests/apps/origin_chain`.
pub type Call = extern "C" fn(*const Step, *mut Question) -> u64;

/// One step of a chain.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Step(pub Call);

/// A library of `tests/apps/origin_chain`, opened with `RTLD_LOCAL`.
#[derive(Debug)]
pub struct ChainLibrary {
    /// Its file name.
    pub name: String,
    run: Symbol<Call>,
    find: Symbol<Call>,
    library: Library,
}

impl ChainLibrary {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or lacks one of its functions.
    pub fn open(path: &Path) -> Result<Self, libloading::Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // SAFETY: the library has no initialisers, and its functions have these types.
        unsafe {
            let library = Library::open(Some(path), RTLD_NOW | RTLD_LOCAL)?;
            let run = library.get(b"origin_run\0")?;
            let find = library.get(b"miopenFindConvolutionForwardAlgorithm\0")?;
            Ok(Self { name, run, find, library })
        }
    }

    /// Its function, or the one with the name of a search function.
    #[must_use]
    pub fn step(&self, finds: bool) -> Step {
        Step(if finds { *self.find } else { *self.run })
    }

    /// The name of that function.
    #[must_use]
    pub const fn function(finds: bool) -> &'static str {
        if finds { "miopenFindConvolutionForwardAlgorithm" } else { "origin_run" }
    }

    /// Closes it.
    ///
    /// # Errors
    ///
    /// If the loader refuses.
    pub fn close(self) -> Result<(), libloading::Error> {
        self.library.close()
    }
}

/// Where a process's verdicts come from, according to the controller.
#[derive(Debug)]
pub enum VerdictSource {
    /// BPF programs decide: its verdict page.
    Page(Page),
    /// The process decides itself, by these rules.
    Rules(String),
}

/// A process's connection to its controller.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    /// The descriptors of the welcome.
    kept: Vec<OwnedFd>,
}

impl Client {
    /// Connects; reports the token from the controller if asked to.
    ///
    /// # Errors
    ///
    /// Those of the system calls, and unexpected packets.
    pub fn join(folder: &Path, reports_token: bool) -> io::Result<Self> {
        let mut client = Self { socket: greeted(folder)?, kept: Vec::new() };
        let (FromController::Welcome(welcome), descriptors) = client.receive()? else {
            return Err(io::Error::other("no welcome"));
        };
        client.kept = descriptors;
        if reports_token {
            xsched_arbiter_report(Report::Join as u64, 0, welcome.token);
        }
        Ok(client)
    }

    /// Waits until the controller sends the source of verdicts.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn verdict_source(&self) -> io::Result<VerdictSource> {
        match self.receive()? {
            (FromController::Verdicts(verdicts), descriptors) => {
                if verdicts.slots as usize != VERDICT_SLOTS {
                    return Err(io::Error::other("a page of another size"));
                }
                let page = descriptors.first().ok_or(io::Error::other("no page"))?;
                Ok(VerdictSource::Page(Page::map(page)?))
            }
            (FromController::Rules(_), mut descriptors) => {
                let text = descriptors.pop().ok_or(io::Error::other("no text"))?;
                io::read_to_string(fs::File::from(text)).map(VerdictSource::Rules)
            }
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// Declares the scheduling domain of a library's calls.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn set_domain(&self, path: &str, domain: u32) -> io::Result<()> {
        self.send(&Domain::new(domain, path.as_bytes()))
    }

    /// Announces the number of a kernel.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn name_kernel(&self, id: u32, name: &str) -> io::Result<()> {
        self.send(&KernelName::new(id, name.as_bytes()))
    }

    fn send(&self, packet: &(impl IntoBytes + Immutable)) -> io::Result<()> {
        send(&self.socket, packet.as_bytes(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn receive(&self) -> io::Result<(FromController, Vec<OwnedFd>)> {
        let mut packet = [0; PACKET_LEN_MAX + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut packet)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let descriptors = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let descriptors = descriptors.collect();
        FromController::parse(&packet[..got.bytes]).map(|said| (said, descriptors)).map_err(io::Error::other)
    }
}

/// A process's verdict page.
#[derive(Debug)]
pub struct Page(NonNull<VerdictPage>);

/// A verdict, and how it was obtained.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The slot with the verdict.
    pub slot: VerdictSlot,
    /// Requests until there was a verdict.
    pub tries: u32,
    /// From the first request to the verdict.
    pub took: Duration,
    /// Return address of the chain's innermost call.
    pub caller: u64,
}

impl Answer {
    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict(self.slot.verdict)
    }
}

impl Page {
    fn map(page: &OwnedFd) -> io::Result<Self> {
        let (len, flags) = (size_of::<VerdictPage>(), MapFlags::SHARED);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, page.as_fd(), 0) }?;
        // SAFETY: as above. The kernel must refuse it.
        let writable = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, page.as_fd(), 0)
        };
        if writable.is_ok() {
            return Err(io::Error::other("a process can write its verdicts"));
        }
        NonNull::new(start.cast()).map(Self).ok_or(io::Error::other("mapped at zero"))
    }

    /// Changes whenever a cached verdict may have become invalid.
    #[must_use]
    pub fn generation(&self) -> u64 {
        // SAFETY: the page is mapped.
        let generation = unsafe { &raw const (*self.0.as_ptr()).generation };
        // SAFETY: it is a word of the page, which lives as long as `self` and is written whole.
        unsafe { AtomicU64::from_ptr(generation.cast_mut()) }.load(Ordering::Acquire)
    }

    fn slot(&self, index: usize) -> VerdictSlot {
        assert!(index < VERDICT_SLOTS);
        // SAFETY: the index is within the page, and only programs that run on this thread write the slot.
        unsafe { std::ptr::read_volatile(&raw const (*self.0.as_ptr()).slots[index]) }
    }

    /// Calls through these steps, outermost first, and asks at the innermost; `None` if no program answers.
    #[must_use]
    pub fn ask_once(&self, steps: &[Step], question: &mut Question) -> Option<VerdictSlot> {
        static TICKETS: AtomicU64 = AtomicU64::new(1);
        question.ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        let (Step(first), rest) = steps.split_first()?;
        first(rest.as_ptr(), question);
        let slot = self.slot(question.slot as usize);
        (slot.ticket == question.ticket).then_some(slot)
    }

    /// Asks until there is a verdict; `None` if no program answers, or on a timeout.
    #[must_use]
    pub fn ask(&self, steps: &[Step], question: &mut Question) -> Option<Answer> {
        let begin = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let slot = self.ask_once(steps, question)?;
            let took = begin.elapsed();
            if !Verdict(slot.verdict).is_pending() {
                return Some(Answer { slot, tries, took, caller: question.caller });
            }
            if took > PATIENCE {
                return None;
            }
            thread::sleep(Duration::from_micros(500));
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<VerdictPage>()) };
    }
}

// SAFETY: the mapping belongs to the process, and each thread reads its own slot.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}
