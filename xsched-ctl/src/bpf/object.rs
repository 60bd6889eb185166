//! The BPF object: its programs and maps in the kernel.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use aya::programs::{ProgramError, TracePoint, UProbe};
use aya::{Ebpf, EbpfError, EbpfLoader};
use xsched_programs::TRACER;

use super::sys::{self, Purpose};
use crate::causes::is_permission;
use crate::cli::{Driver, ExtraDevice, Uprobes};

/// Why the kernel side could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BpfError {
    /// The object was refused before any program was loaded.
    #[error("the kernel refused the BPF maps: {0}")]
    Object(#[from] EbpfError),
    /// The number of possible processors cannot be read.
    #[error("cannot read {path}: {cause}")]
    Processors {
        /// The file that lists them.
        path: &'static str,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The verifier refused a program, or the kernel lacks something that it uses.
    #[error("the kernel refused the BPF program `{program}`: {cause}{log}")]
    Load {
        /// Its name.
        program: &'static str,
        /// The kernel's error.
        #[source]
        cause: io::Error,
        /// The last lines of the verifier's log, each on a line of its own; empty if there is none.
        log: String,
    },
    /// A probe could not be attached to a file.
    #[error("cannot attach `{program}` to {path}: {cause}")]
    Attach {
        /// The program's name.
        program: &'static str,
        /// The target.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// A map could not be used.
    #[error("cannot use the BPF map `{map}`: {cause}")]
    Map {
        /// Its name.
        map: &'static str,
        /// The cause.
        #[source]
        cause: aya::maps::MapError,
    },
}

impl BpfError {
    /// Whether the cause is a missing permission.
    pub(crate) fn is_permission(&self) -> bool {
        is_permission(self)
    }
}

/// Settings from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Bytes of the ring buffer: a power of two and a multiple of the page size.
    pub(crate) ring_size: u32,
    /// Most frames of a call chain.
    pub(crate) depth: u32,
    /// How to attach.
    pub(crate) uprobes: Uprobes,
    /// How to record calls to the kernel driver.
    pub(crate) driver: Driver,
    /// Further devices that count as the driver's.
    pub(crate) extra_devices: Vec<ExtraDevice>,
}

/// Least size of the ring buffer for copies of stacks: some hundred copies.
///
/// Otherwise it is as large as the other one. Until the tables of a program's libraries are built, each call from a new
/// place sends a copy of 8 or 32 KiB. On a busy machine the tracer may read some 10 ms late, which is some thousand
/// calls of a fast program. The default of 64 MiB has space for 2,000 to 8,000 copies.
const SNAPSHOTS_SIZE_MIN: u32 = 8 << 20;

/// The object and its maps in the kernel. Programs are loaded at their first use.
pub(crate) struct Programs {
    pub(super) ebpf: Ebpf,
    /// Possible processors of this machine; their numbers are below this.
    pub(super) processor_count: u32,
    /// The programs loaded for links of type `uprobe_multi`.
    multi: HashMap<&'static str, OwnedFd>,
}

impl Programs {
    /// Creates the maps.
    pub(crate) fn create(options: &Options) -> Result<Self, BpfError> {
        let processor_count = processor_count()?;
        let ebpf = EbpfLoader::new()
            .map_max_entries("EVENTS", options.ring_size)
            .map_max_entries("SNAPSHOTS", options.ring_size.max(SNAPSHOTS_SIZE_MIN))
            .map_max_entries("COUNTERS", processor_count)
            .load(TRACER)?;
        Ok(Self { ebpf, processor_count, multi: HashMap::new() })
    }

    /// The object, from which maps are taken.
    pub(crate) fn object(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// A program for perf-event based uprobe links.
    pub(super) fn uprobe(&mut self, name: &'static str) -> Result<&mut UProbe, BpfError> {
        let program: &mut UProbe =
            self.program(name).try_into().expect("the object's programs have fixed types");
        if program.fd().is_err() {
            program.load().map_err(|error| load_error(name, error))?;
        }
        Ok(program)
    }

    /// A program for tracepoints.
    pub(super) fn tracepoint(&mut self, name: &'static str) -> Result<&mut TracePoint, BpfError> {
        let program: &mut TracePoint =
            self.program(name).try_into().expect("the object's programs have fixed types");
        if program.fd().is_err() {
            program.load().map_err(|error| load_error(name, error))?;
        }
        Ok(program)
    }

    fn program(&mut self, name: &str) -> &mut aya::programs::Program {
        self.ebpf.program_mut(name).expect("build.rs compiles all programs into the object")
    }

    /// A uprobe program for links of type `uprobe_multi`, which require it to be loaded with that type.
    pub(super) fn multi(&mut self, name: &'static str) -> Result<&OwnedFd, BpfError> {
        if !self.multi.contains_key(name) {
            let fd = self.load_as(name, Purpose::UprobeMulti)?;
            self.multi.insert(name, fd);
        }
        Ok(&self.multi[name])
    }

    /// Loads a program for a purpose that aya 0.14 does not support: takes its instructions from the object, relocates
    /// them to the maps that aya made, and loads them here.
    pub(super) fn load_as(&self, name: &'static str, purpose: Purpose<'_>) -> Result<OwnedFd, BpfError> {
        let mut object = aya_obj::Object::parse(TRACER).map_err(EbpfError::from)?;
        let btf = load_types(&mut object);
        let fds: HashMap<&str, i32> =
            self.ebpf.maps().filter_map(|(name, map)| Some((name, map_fd(map)?))).collect();
        let maps = std::mem::take(&mut object.maps);
        let text_sections = object.functions.keys().map(|(section, _)| *section).collect();
        object
            .relocate_maps(
                maps.iter().filter_map(|(name, map)| Some((name.as_str(), *fds.get(name.as_str())?, map))),
                &text_sections,
            )
            .and_then(|()| object.relocate_calls(&text_sections))
            .map_err(EbpfError::from)?;
        let program = &object.programs[name];
        let function = &object.functions[&program.function_key()];
        let info = function.func_info.func_info_bytes();
        let functions = btf.as_ref().map(|btf| sys::Functions {
            btf: btf.as_fd(),
            info: &info,
            info_size: function.func_info_rec_size,
        });
        let code =
            sys::Code { name, license: &program.license, instructions: &function.instructions, functions };
        sys::load(&code, purpose).map_err(|(cause, log)| BpfError::Load {
            program: name,
            cause,
            log: last_lines(&log),
        })
    }
}

/// The kernel's list of possible processor numbers: `0-127`, seldom with gaps
/// ([documentation](https://docs.kernel.org/admin-guide/cputopology.html)).
const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// The largest of these numbers plus one.
pub(crate) fn processor_count() -> Result<u32, BpfError> {
    let unreadable = |cause| BpfError::Processors { path: POSSIBLE_PROCESSORS, cause };
    let list = std::fs::read_to_string(POSSIBLE_PROCESSORS).map_err(unreadable)?;
    let last = list.trim_end().rsplit(['-', ',']).next().and_then(|number| number.parse::<u32>().ok());
    last.map(|last| last + 1).ok_or_else(|| unreadable(io::Error::other(format!("it says {list:?}"))))
}

/// Gives the object's types to the kernel. Without them programs load too, but verification takes longer.
fn load_types(object: &mut aya_obj::Object) -> Option<OwnedFd> {
    let features = aya::features().btf()?;
    let types = object.fixup_and_sanitize_btf(features).ok()??.to_bytes();
    sys::load_btf(&types).inspect_err(|error| tracing::debug!("the kernel refused the types: {error}")).ok()
}

pub(super) fn map_fd(map: &aya::maps::Map) -> Option<i32> {
    use aya::maps::Map;
    match map {
        Map::Array(data)
        | Map::ArrayOfMaps(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::RingBuf(data) => Some(data.fd().as_fd().as_raw_fd()),
        _ => None,
    }
}

pub(crate) fn load_error(program: &'static str, error: ProgramError) -> BpfError {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            BpfError::Load { program, cause: io_error, log: last_lines(&verifier_log.to_string()) }
        }
        other => BpfError::Load { program, cause: io::Error::other(other), log: String::new() },
    }
}

/// The end of a verifier log, which says what was refused.
fn last_lines(log: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<_> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].iter().flat_map(|line| ["\n  verifier: ", line]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifier_logs_are_cut_from_the_front() {
        let log = (0..100).map(|n| format!("line {n}\n\n")).collect::<Vec<_>>().concat();
        let end = last_lines(&log);
        assert!(end.starts_with("\n  verifier: line 88"), "{end}");
        assert!(end.ends_with("line 99"), "{end}");
        assert_eq!(last_lines(""), "");
    }
}
