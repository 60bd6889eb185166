//! The page in a BPF map, kept by programs.
//!
//! Everything is pinned, so that it outlives the controller: reports go on being counted while there is none, and its
//! successor finds the page as it is. Only what ties the programs to this very controller goes with it: the probe at
//! its own function.

mod create;
mod gates;
mod orders;
mod pins;
mod ring;
mod shim;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use aya::maps::{HashMap, Map, MapData, MapError};
use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use aya::programs::{ProbeKind, ProgramError, UProbe};
use xsched_protocol::arbiter_page::{ArbiterEvent, Control, PAGE_MAGIC, PAGE_VERSION, SPOKEN_FOR, Word};
use xsched_symbols::FileId;

use crate::page::Page;
use crate::times::Times;
use gates::Gates;
pub use pins::PINS;
use pins::Pins;
use ring::{Calls, Ring};
pub use shim::{FoundShim, ProbedShim, SHIMS_MAX, ShimSearch};

/// Why there are no programs that keep a page.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsError {
    /// There is another controller.
    #[error("another controller keeps {0}")]
    Occupied(String),
    /// The folder for pins cannot be used.
    #[error("cannot use {path}: {cause}")]
    Folder {
        /// Where it is.
        path: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The kernel refused the maps.
    #[error("the kernel refused the BPF maps: {0}")]
    Object(#[from] aya::EbpfError),
    /// The kernel refused a program.
    #[error("the kernel refused the BPF program `{program}`: {cause}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The kernel's error, with the verifier's log if it wrote one.
        #[source]
        cause: Box<ProgramError>,
    },
    /// A program could not be attached so that it stays attached (before Linux 5.15).
    #[error("the program `{0}` cannot be attached for longer than this process lives")]
    NoLink(&'static str),
    /// A map could not be used.
    #[error("cannot use the BPF map `{map}`: {cause}")]
    Map {
        /// Its name.
        map: &'static str,
        /// The kernel's error.
        #[source]
        cause: MapError,
    },
    /// The page could not be mapped or frozen.
    #[error("cannot set up the page: {0}")]
    Page(#[source] io::Error),
    /// Something could not be pinned.
    #[error("cannot pin {name}: {cause}")]
    Pin {
        /// What.
        name: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The kernel does not say where it counts threads.
    #[error(transparent)]
    Types(#[from] xsched_programs::TypesError),
    /// This process's own code was not found.
    #[error("cannot find own code: {0}")]
    OwnCode(#[source] io::Error),
    /// The probe at this process's own function did not fire.
    #[error("the programs do not see this process")]
    Unheard,
    /// The process has not loaded the shim, or hides it.
    #[error(
        "process {pid} has mapped no file with the function `{}`",
        xsched_protocol::arbiter_page::REPORT_SYMBOL
    )]
    NoShim {
        /// The process.
        pid: u32,
    },
    /// The process's mappings could not be read.
    #[error("cannot read the mappings of process {pid}: {cause}")]
    Mappings {
        /// The process.
        pid: u32,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The probe in the process's shim was taken away, or the shim was written, while the process was looked at.
    #[error("the probe in its shim is gone")]
    ProbeGone,
}

/// The maps, the programs and this controller's hold on them.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) page: Page,
    page_map: MapData,
    events_map: MapData,
    calls_map: MapData,
    gates: Gates,
    ring: Ring,
    calls: Calls,
    expected: HashMap<MapData, u64, u64>,
    owners: HashMap<MapData, u64, u64>,
    /// Its link is the one that must not outlive this process.
    _control: UProbe,
    pins: Pins,
}

impl Programs {
    /// Takes over what a dead controller has left in `folder`, or begins anew.
    pub(crate) fn start(folder: &Path, times: &Times) -> Result<Self, ProgramsError> {
        let pins = Pins::lock(folder)?;
        if Self::can_take_over(&pins).is_none() {
            pins.clear();
            create::create(&pins, times).inspect_err(|_| {
                // Nothing of it is of use to anybody.
                pins.clear();
                pins.remove();
            })?;
        }
        let mut programs = Self::open(pins)?;
        programs.claim()?;
        programs.dismiss_all_spoken_for();
        programs.control(Control::SetTimes, 0, times.lease_ns(), times.linger_ns());
        programs.control(Control::Listen, 0, 0, 0);
        Ok(programs)
    }

    /// Whether everything is there, and speaks as this build does.
    fn can_take_over(pins: &Pins) -> Option<()> {
        let map = MapData::from_pin(pins.path("page")).ok()?;
        let page = Page::map(map.fd().as_fd(), false).ok()?;
        let is_ours = page.load(Word::MAGIC) == PAGE_MAGIC
            && page.load(Word::VERSION) == PAGE_VERSION
            && page.load(Word::PROGRAMS) == create::fingerprint();
        // Pinned last.
        (is_ours && pins.path(create::LAST).exists()).then_some(())
    }

    fn open(pins: Pins) -> Result<Self, ProgramsError> {
        let page_map = map_at(&pins, "page")?;
        let events_map = map_at(&pins, "events")?;
        let calls_map = map_at(&pins, "calls")?;
        let mut control = program_at(&pins, "control")?;
        orders::probe(&mut control)?;
        Ok(Self {
            page: Page::map(page_map.fd().as_fd(), false).map_err(ProgramsError::Page)?,
            ring: Ring::map(events_map.fd().as_fd()).map_err(ProgramsError::Page)?,
            calls: Calls::map(calls_map.fd().as_fd()).map_err(ProgramsError::Page)?,
            gates: Gates::new(map_at(&pins, "gates")?),
            expected: table_at(&pins, "expected")?,
            owners: table_at(&pins, "owners")?,
            _control: control,
            page_map,
            events_map,
            calls_map,
            pins,
        })
    }

    /// Becomes the one whose orders are followed.
    fn claim(&mut self) -> Result<(), ProgramsError> {
        // Nobody will show what the predecessor has given out.
        for number in self.expected.keys().filter_map(Result::ok).collect::<Vec<_>>() {
            self.forget(number);
        }
        let epoch = self.page.load(Word::EPOCH);
        // A process knows the number that it was given, and may run this file as well: this one is for nobody else.
        let number = self.new_number(|number| !number)?;
        self.control(Control::Claim, 0, number, 0);
        if self.page.load(Word::EPOCH) == epoch { Err(ProgramsError::Unheard) } else { Ok(()) }
    }

    /// Their connections have ended with the predecessor.
    fn dismiss_all_spoken_for(&mut self) {
        for owner in self.owners().into_iter().filter(|owner| owner & SPOKEN_FOR != 0) {
            self.dismiss(owner);
            self.control(Control::Gone, 0, owner, 0);
        }
    }

    pub(crate) fn search(&self, pid: u32) -> ShimSearch {
        ShimSearch::new(&self.pins, pid)
    }

    /// A number for a process with this shim to show.
    pub(crate) fn expect(&mut self, shim: ProbedShim) -> Result<u64, ProgramsError> {
        if shim.is_there(&self.pins) { self.new_number(|_| 0) } else { Err(ProgramsError::ProbeGone) }
    }

    pub(crate) fn probed(&self) -> Vec<FileId> {
        shim::probed(&self.pins)
    }

    pub(crate) fn unprobe(&self, id: FileId) {
        shim::unprobe(&self.pins, id);
    }

    /// A number that nobody can guess; `value` says what the programs find beside it.
    fn new_number(&mut self, value: impl FnOnce(u64) -> u64) -> Result<u64, ProgramsError> {
        let mut number = [0; 8];
        // getrandom does not fail for so few bytes, and exists since Linux 3.17.
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())
            .expect("the kernel gives random numbers");
        let number = u64::from_ne_bytes(number) | 1;
        let insert = self.expected.insert(number, value(number), 0);
        insert.map(|()| number).map_err(|cause| ProgramsError::Map { map: "expected", cause })
    }

    pub(crate) fn joined(&self, number: u64) -> Option<u64> {
        let shown_by = self.expected.get(&number, 0).ok().filter(|&owner| owner != 0)?;
        // Who has shown it is taken in with it after that, if there is room. Nor has somebody joined who was about to show another
        // number as that was given up, and has left his name in the element that this one has by now.
        self.owners.get(&shown_by, 0).is_ok_and(|shown| shown == number).then_some(shown_by)
    }

    pub(crate) fn forget(&mut self, number: u64) {
        // One that is not there is forgotten.
        let _ = self.expected.remove(&number);
    }

    pub(crate) fn admit(&mut self, owner: u64) {
        // If there is no room, no queue can be opened for it, which says so.
        let _ = self.owners.insert(owner, 0, 0);
    }

    /// A page for the gate of the next queue of a slot.
    pub(crate) fn make_gate(&mut self, slot: u32) -> io::Result<OwnedFd> {
        self.gates.make(slot)
    }

    pub(crate) fn dismiss(&mut self, owner: u64) {
        // One that is not there is dismissed.
        let _ = self.owners.remove(&owner);
    }

    pub(crate) fn owners(&self) -> Vec<u64> {
        self.owners.keys().filter_map(Result::ok).collect()
    }

    #[expect(clippy::unused_self, reason = "the programs follow this process from `start` on")]
    pub(crate) fn control(&self, operation: Control, slot: u64, first: u64, second: u64) {
        orders::xsched_arbiter_control(operation as u64, slot, first, second);
    }

    pub(crate) fn drain(&mut self, events: &mut Vec<ArbiterEvent>) {
        // First, so that what comes meanwhile calls again.
        self.calls.forget();
        self.ring.drain(events);
    }

    pub(crate) fn page_fd(&self) -> BorrowedFd<'_> {
        self.page_map.fd().as_fd()
    }

    pub(crate) fn events_fd(&self) -> BorrowedFd<'_> {
        self.events_map.fd().as_fd()
    }

    pub(crate) fn calls_fd(&self) -> BorrowedFd<'_> {
        self.calls_map.fd().as_fd()
    }

    /// Leaves nothing behind.
    pub(crate) fn end(self) {
        self.pins.clear();
        self.pins.remove();
    }
}

fn map_at(pins: &Pins, name: &'static str) -> Result<MapData, ProgramsError> {
    MapData::from_pin(pins.path(name)).map_err(|cause| ProgramsError::Map { map: name, cause })
}

fn table_at(pins: &Pins, name: &'static str) -> Result<HashMap<MapData, u64, u64>, ProgramsError> {
    HashMap::try_from(Map::HashMap(map_at(pins, name)?))
        .map_err(|cause| ProgramsError::Map { map: name, cause })
}

fn program_at(pins: &Pins, name: &'static str) -> Result<UProbe, ProgramsError> {
    UProbe::from_pin(pins.path(name), ProbeKind::Entry)
        .map_err(|cause| ProgramsError::Program { program: name, cause: Box::new(cause) })
}

/// Attaches a program at an offset of a file, in whatever process.
fn attach(
    program: &mut UProbe,
    name: &'static str,
    file: &std::fs::File,
    offset: u64,
) -> Result<aya::programs::uprobe::UProbeLinkId, ProgramsError> {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    program
        .attach(UProbeAttachLocation::AbsoluteOffset(offset), path, UProbeScope::AllProcesses)
        .map_err(|cause| ProgramsError::Program { program: name, cause: Box::new(cause) })
}
