//! The kernel side: the object, its maps, and the probes in shims.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use aya::maps::{Array, HashOfMaps, Map, MapData, MapError};
use aya::programs::uprobe::{UProbeAttachLocation, UProbeLinkId, UProbeScope};
use aya::programs::{ProgramError, TracePoint, UProbe};
use aya::{Ebpf, EbpfLoader};
use xsched_arbiter::SHIMS_MAX;
use xsched_bpf::{BpfError, CounterMap, Ring, load_error, map_value, processor_count, sys};
use xsched_chains::ChainMaps;
use xsched_control_api::peer::Party;
use xsched_programs::{KernelTypes, ORIGIN};
use xsched_protocol::verdict::{CLASSIFY_SYMBOL, Order, OriginConfig, VerdictKey, VerdictPage};
use xsched_symbols::{FileId, function_in};

use super::decided::DecidedMaps;
use super::ordering::{order, own_function};
use super::{JoinError, OriginError};

map_value!(Configuration, OriginConfig);

/// Size of the ring buffer for requests and chains.
const RING_SIZE: u32 = 1 << 20;

/// Size of the ring buffer for copies of stacks: some hundred of the largest.
const SNAPSHOTS_SIZE: u32 = 16 << 20;

/// Programs at tracepoints, and the names of these.
const TRACEPOINTS: [(&str, &[&str]); 2] = [
    ("map_enter", &["sys_enter_mmap", "sys_enter_mprotect"]),
    ("map_leave", &["sys_exit_mmap", "sys_exit_mprotect"]),
];

/// The object in the kernel, without the maps that other modules use.
pub(super) struct Programs {
    object: Ebpf,
    pages: HashOfMaps<MapData, u32>,
    pub(super) decided: DecidedMaps,
    pub(super) counters: CounterMap,
    probed: HashMap<FileId, UProbeLinkId>,
    watches_mappings: bool,
}

/// What other modules use: the ring buffers to read, and the maps for stack walks.
pub(super) struct Ends {
    pub(super) events: Ring,
    pub(super) snapshots: Ring,
    pub(super) chains: ChainMaps,
}

impl Programs {
    /// Loads everything, and becomes the controller whose orders the programs follow.
    pub(super) fn load() -> Result<(Self, Ends), OriginError> {
        let processors = processor_count()?;
        let mut object = EbpfLoader::new()
            .map_max_entries("EVENTS", RING_SIZE)
            .map_max_entries("COUNTERS", processors)
            .map_max_entries("SNAPSHOTS", SNAPSHOTS_SIZE)
            .load(ORIGIN)
            .map_err(BpfError::from)?;
        // Programs must be loaded before the maps are taken out of the object.
        for name in ["classify", "order"] {
            let program: &mut UProbe = program(&mut object, name);
            program.load().map_err(|error| load_error(name, error))?;
        }
        for (name, _) in TRACEPOINTS {
            let program: &mut TracePoint = program(&mut object, name);
            program.load().map_err(|error| load_error(name, error))?;
        }
        let mut config: Array<MapData, Configuration> = take(&mut object, "ORIGIN")?;
        let number = claim(&mut config)?;
        let ends = Ends {
            events: Ring::events(&mut object)?,
            snapshots: Ring::snapshots(&mut object)?,
            chains: ChainMaps::take(&mut object)?,
        };
        let mut programs = Self {
            pages: take(&mut object, "VERDICT_PAGES")?,
            decided: DecidedMaps::new(take(&mut object, "VERDICTS")?),
            counters: CounterMap::take(&mut object, processors)?,
            object,
            probed: HashMap::new(),
            watches_mappings: false,
        };
        let (file, offset) = own_function().map_err(OriginError::OwnCode)?;
        programs.attach("order", &file, offset)?;
        order(Order::BecomeController, number);
        let config = config.get(&0, 0).map_err(|cause| BpfError::Map { map: "ORIGIN", cause })?;
        if config.0.controller == 0 {
            return Err(OriginError::Unheard);
        }
        Ok((programs, ends))
    }

    /// Notifies the programs of all code that processes map. Starts only when the first process needs it, because it
    /// costs every process.
    pub(super) fn watch_mappings(&mut self) -> Result<(), BpfError> {
        if self.watches_mappings {
            return Ok(());
        }
        for (name, tracepoints) in TRACEPOINTS {
            for tracepoint in tracepoints {
                let program: &mut TracePoint = program(&mut self.object, name);
                program
                    .attach("syscalls", tracepoint)
                    .map_err(|error| attach_error(name, tracepoint, error))?;
            }
        }
        self.watches_mappings = true;
        Ok(())
    }

    fn attach(&mut self, name: &'static str, file: &File, offset: u64) -> Result<UProbeLinkId, BpfError> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let program: &mut UProbe = program(&mut self.object, name);
        program
            .attach(UProbeAttachLocation::AbsoluteOffset(offset), &path, UProbeScope::AllProcesses)
            .map_err(|error| attach_error(name, &path, error))
    }

    /// Makes sure that the shim of a process is probed. The arbiter has found the file: no other that the process has mapped is
    /// trusted, or read while others wait for their verdicts. At the limit, the probe of a file that is not `used` is removed: there are
    /// at most as many shims as the arbiter has probes.
    pub(super) fn probe(
        &mut self,
        pid: u32,
        shim: FileId,
        used: impl FnOnce() -> HashSet<FileId>,
    ) -> Result<(), JoinError> {
        if self.probed.contains_key(&shim) {
            return Ok(());
        }
        let found = function_in(pid, shim, CLASSIFY_SYMBOL);
        let found = found.map_err(|cause| JoinError::Unreadable { pid, cause })?;
        let (file, offset) = found.ok_or(JoinError::NoFunction(pid))?;
        if self.probed.len() >= SHIMS_MAX {
            self.detach_one(&used());
        }
        // The link keeps the file, so its inode number is not reused.
        let link = self.attach("classify", &file, offset)?;
        self.probed.insert(shim, link);
        Ok(())
    }

    fn detach_one(&mut self, used: &HashSet<FileId>) {
        let unused = self.probed.keys().find(|id| !used.contains(id)).copied();
        if let Some(shim) = unused {
            self.unprobe(shim);
        }
    }

    pub(super) fn unprobe(&mut self, shim: FileId) {
        let probed = self.probed.extract_if(|id, _| id.matches(&shim)).next();
        let program: &mut UProbe = program(&mut self.object, "classify");
        if let Some(link) = probed.and_then(|(_, link)| program.take_link(link).ok()) {
            // The kernel takes 0.1 s to remove a probe. On this thread, other processes would wait so long for their verdicts.
            std::thread::spawn(move || drop(link));
        }
    }

    /// Creates a page for a process of this party, which may request verdicts from now on.
    pub(super) fn add_page(&mut self, tgid: u32, party: Party) -> Result<OwnedFd, JoinError> {
        self.watch_mappings()?;
        let failed = |error| BpfError::Map { map: "VERDICT_PAGES", cause: MapError::IoError(error) };
        let page = sys::create_mappable_array(size_of::<VerdictPage>() as u32, 1).map_err(failed)?;
        sys::freeze(page.as_fd()).map_err(failed)?;
        let map = MapData::from_fd(page.try_clone().map_err(failed)?)
            .map_err(|cause| BpfError::Map { map: "VERDICT_PAGES", cause })?;
        self.decided.add(tgid, party)?;
        if let Err(cause) = self.pages.insert(tgid, &map, 0) {
            self.decided.remove(tgid, []);
            return Err(BpfError::Map { map: "VERDICT_PAGES", cause }.into());
        }
        Ok(page)
    }

    /// A process may not request verdicts any more.
    pub(super) fn remove_page(&mut self, tgid: u32, keys: impl IntoIterator<Item = VerdictKey>) {
        // Removal fails only if it is not there.
        let _ = self.pages.remove(&tgid);
        self.decided.remove(tgid, keys);
    }
}

/// Marks the verdicts that a process has kept as outdated.
pub(super) fn renew(tgid: u32) {
    order(Order::Renew, tgid.into());
}

/// Tells the programs the offsets for this kernel, and the number that this controller will show.
fn claim(config: &mut Array<MapData, Configuration>) -> Result<u64, BpfError> {
    let offsets = KernelTypes::read().and_then(|types| types.replaced_address_offsets());
    let offsets = offsets.unwrap_or_else(|error| {
        tracing::warn!("no verdicts for calls in progress that are traced as well: {error}");
        OriginConfig::default()
    });
    let mut number = [0; 8];
    // getrandom does not fail for so few bytes, and exists since Linux 3.17.
    rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives random numbers");
    let number = u64::from_ne_bytes(number) | 1;
    let new = Configuration(OriginConfig { number, ..offsets });
    config.set(0, new, 0).map(|()| number).map_err(|cause| BpfError::Map { map: "ORIGIN", cause })
}

fn take<M: TryFrom<Map, Error = MapError>>(object: &mut Ebpf, name: &'static str) -> Result<M, BpfError> {
    let map = object.take_map(name).expect("build.rs compiles all maps into the object");
    map.try_into().map_err(|cause| BpfError::Map { map: name, cause })
}

fn program<'a, P>(object: &'a mut Ebpf, name: &str) -> &'a mut P
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = object.program_mut(name).expect("build.rs compiles all programs into the object");
    program.try_into().expect("the object's programs have fixed types")
}

fn attach_error(program: &'static str, to: &str, cause: ProgramError) -> BpfError {
    BpfError::Attach { program, path: to.into(), cause: io::Error::other(cause) }
}
