//! The arbiter page in a BPF map, kept by programs.
//!
//! Maps, programs and links are pinned, so that they outlive the controller. Without a controller, reports are still applied, and
//! its successor finds the page in its present state. Only one link ends with the controller: that of the probe at its own
//! function, through which it controls the programs.

mod attach;
mod control;
mod create;
mod error;
mod gates;
mod map_of_maps;
mod pins;
mod shim;
mod wake_ups;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::{fmt, io};

use aya::maps::{HashMap, Map, MapData, RingBuf};
use aya::programs::{ProbeKind, UProbe};
use xsched_protocol::arbiter_page::{ArbiterEvent, Control, PAGE_MAGIC, PAGE_VERSION, PROXIED, Word};
use xsched_symbols::FileId;

use crate::page::Page;
use crate::times::Times;
pub use create::try_programs;
pub use error::ProgramsError;
use gates::Gates;
use map_of_maps::MapOfMaps;
pub use pins::PINS;
use pins::Pins;
pub use shim::{FoundShim, ProbedShim, SHIMS_MAX, ShimSearch};
use wake_ups::WakeUps;
use zerocopy::FromBytes as _;

/// The maps, the programs and this controller's link to them.
pub(crate) struct Programs {
    pub(crate) page: Page,
    page_map: MapData,
    events: RingBuf<MapData>,
    gates: Gates,
    wake_ups: WakeUps,
    expected: HashMap<MapData, u64, u64>,
    owners: HashMap<MapData, u64, u64>,
    /// The link of this program must not outlive this process.
    _control: UProbe,
    pins: Pins,
}

impl fmt::Debug for Programs {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reader of the ring has no such form.
        to.debug_struct("Programs")
            .field("page", &self.page)
            .field("pins", &self.pins)
            .finish_non_exhaustive()
    }
}

impl Programs {
    /// Takes over the pins of an ended controller in `folder`, or creates everything new.
    pub(crate) fn start(folder: &Path, times: &Times) -> Result<Self, ProgramsError> {
        let pins = Pins::lock(folder)?;
        if Self::can_take_over(&pins).is_none() {
            pins.clear();
            create::create(&pins, times).inspect_err(|_| {
                // An incomplete set of pins is useless.
                pins.clear();
                pins.remove();
            })?;
        }
        let mut programs = Self::open(pins)?;
        programs.claim()?;
        programs.dismiss_all_proxied();
        programs.control(Control::SetTimes, 0, times.lease_ns(), times.linger_ns());
        programs.control(Control::Listen, 0, 0, 0);
        Ok(programs)
    }

    /// Some if the pins are complete and belong to the programs of this build.
    fn can_take_over(pins: &Pins) -> Option<()> {
        let map = MapData::from_pin(pins.path("page")).ok()?;
        let page = Page::map(map.fd().as_fd(), false).ok()?;
        let is_ours = page.load(Word::MAGIC) == PAGE_MAGIC
            && page.load(Word::VERSION) == PAGE_VERSION
            && page.load(Word::PROGRAMS) == create::fingerprint();
        // The last pin exists only if all others do.
        (is_ours && pins.path(create::LAST).exists()).then_some(())
    }

    fn open(pins: Pins) -> Result<Self, ProgramsError> {
        let page_map = map_at(&pins, "page")?;
        let events = RingBuf::try_from(Map::RingBuf(map_at(&pins, "events")?))
            .map_err(|cause| ProgramsError::Map { map: "events", cause })?;
        let mut control_program = program_at(&pins, "control")?;
        control::probe(&mut control_program)?;
        Ok(Self {
            page: Page::map(page_map.fd().as_fd(), false).map_err(ProgramsError::Page)?,
            events,
            gates: Gates(MapOfMaps::new(map_at(&pins, "gates")?)),
            wake_ups: WakeUps::new(MapOfMaps::new(map_at(&pins, "wake_ups")?)),
            expected: table_at(&pins, "expected")?,
            owners: table_at(&pins, "owners")?,
            _control: control_program,
            page_map,
            pins,
        })
    }

    /// Makes this process the one that controls the programs.
    fn claim(&mut self) -> Result<(), ProgramsError> {
        // No process will join with tokens of the predecessor.
        for token in self.expected.keys().filter_map(Result::ok).collect::<Vec<_>>() {
            self.forget(token);
        }
        let epoch = self.page.load(Word::EPOCH);
        // Another process may execute the same file and knows its own token. The marked value makes this token valid for the
        // controller only.
        let token = self.new_token(|token| !token)?;
        self.control(Control::BecomeController, 0, token, 0);
        if self.page.load(Word::EPOCH) == epoch { Err(ProgramsError::Unheard) } else { Ok(()) }
    }

    /// Removes the processes that reported over a socket: their connections have ended with the predecessor.
    fn dismiss_all_proxied(&mut self) {
        for owner in self.owners().into_iter().filter(|owner| owner & PROXIED != 0) {
            self.dismiss(owner);
            self.control(Control::Gone, 0, owner, 0);
        }
    }

    pub(crate) fn search(&self, pid: u32) -> ShimSearch {
        ShimSearch::new(&self.pins, pid)
    }

    /// A token with which a process with this shim can join.
    pub(crate) fn expect(&mut self, shim: ProbedShim) -> Result<u64, ProgramsError> {
        if shim.is_there(&self.pins) { self.new_token(|_| 0) } else { Err(ProgramsError::ProbeGone) }
    }

    pub(crate) fn probed(&self) -> Vec<FileId> {
        shim::probed(&self.pins)
    }

    pub(crate) fn unprobe(&self, id: FileId) {
        shim::unprobe(&self.pins, id);
    }

    /// A token that cannot be guessed; `value` gives the value that the programs find for it.
    fn new_token(&mut self, value: impl FnOnce(u64) -> u64) -> Result<u64, ProgramsError> {
        let mut token = [0; 8];
        // getrandom exists since Linux 3.17, and is not interrupted for up to 256 bytes:
        // <https://man7.org/linux/man-pages/man2/getrandom.2.html>.
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .expect("the kernel gives random numbers");
        let token = u64::from_ne_bytes(token) | 1;
        let insert = self.expected.insert(token, value(token), 0);
        insert.map(|()| token).map_err(|cause| ProgramsError::Map { map: "expected", cause })
    }

    pub(crate) fn joined(&self, token: u64) -> Option<u64> {
        let shown_by = self.expected.get(&token, 0).ok().filter(|&owner| owner != 0)?;
        // The programs add the process to `owners`, with its token, after that, if the map has space. The comparison also covers
        // a process that used another token just when that token was removed. It may have left its id in the map element that
        // this token has now.
        self.owners.get(&shown_by, 0).is_ok_and(|shown| shown == token).then_some(shown_by)
    }

    pub(crate) fn forget(&mut self, token: u64) {
        // An error means that the token is not there.
        let _ = self.expected.remove(&token);
    }

    pub(crate) fn admit(&mut self, owner: u64) {
        // If the map is full, opening a claim for the process fails and reports that.
        let _ = self.owners.insert(owner, 0, 0);
    }

    /// A gate page for the next claim of a slot.
    pub(crate) fn make_gate(&mut self, slot: u32) -> io::Result<OwnedFd> {
        self.gates.make(slot)
    }

    pub(crate) fn dismiss(&mut self, owner: u64) {
        // An error means that the process is not there.
        let _ = self.owners.remove(&owner);
    }

    pub(crate) fn owners(&self) -> Vec<u64> {
        self.owners.keys().filter_map(Result::ok).collect()
    }

    #[expect(
        clippy::unused_self,
        reason = "the programs accept control calls of this process only after `start`"
    )]
    pub(crate) fn control(&self, operation: Control, slot: u64, first: u64, second: u64) {
        control::xsched_arbiter_control(operation as u64, slot, first, second);
    }

    pub(crate) fn drain(&mut self, events: &mut Vec<ArbiterEvent>) {
        self.wake_ups.make_space();
        while let Some(record) = self.events.next() {
            events.extend(ArbiterEvent::read_from_bytes(&record));
        }
    }

    /// The ring that wakes the processes that wait for changes of a device.
    pub(crate) fn wake_ups(&mut self, device: u64) -> io::Result<BorrowedFd<'_>> {
        self.wake_ups.of(device as u32)
    }

    pub(crate) fn page_fd(&self) -> BorrowedFd<'_> {
        self.page_map.fd().as_fd()
    }

    pub(crate) fn events_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Removes all pins.
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
