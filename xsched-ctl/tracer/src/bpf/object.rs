//! The BPF object: its programs and maps in the kernel.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::programs::{TracePoint, UProbe};
use aya::{Ebpf, EbpfError, EbpfLoader};
use xsched_bpf::{
    BpfError, load_error, map_fd, processor_count,
    sys::{self, Purpose},
};
use xsched_programs::{TRACER, TRACER_WITH_LOGS};

use super::logs;
use super::options::{Driver, ExtraDevice, Uprobes};

/// Settings from the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the ring buffer: a power of two and a multiple of the page size.
    pub ring_size: u32,
    /// Most frames of a call chain.
    pub depth: u32,
    /// How to attach.
    pub uprobes: Uprobes,
    /// How to record calls to the kernel driver.
    pub driver: Driver,
    /// Further devices that count as the driver's.
    pub extra_devices: Vec<ExtraDevice>,
}

/// Least size of the ring buffer for copies of stacks: a hundred of the largest.
///
/// Otherwise it is as large as the other one. Until the tables of a program's libraries are built, each call from a new
/// place sends a copy of up to 64 KiB, most of them a few. On a busy machine the tracer may read some 10 ms late, which is some thousand
/// calls of a fast program. The default of 64 MiB has space for 1,000 of the largest.
const SNAPSHOTS_SIZE_MIN: u32 = 8 << 20;

/// The object and its maps in the kernel. Programs are loaded at their first use.
pub struct Programs {
    object: &'static [u8],
    pub(super) ebpf: Ebpf,
    /// Possible processors of this machine; their numbers are below this.
    pub(super) processor_count: u32,
    /// The programs loaded for links of type `uprobe_multi`.
    multi: HashMap<&'static str, OwnedFd>,
}

impl Programs {
    /// Creates the maps.
    pub fn create(options: &Options) -> Result<Self, BpfError> {
        let processor_count = processor_count()?;
        let object = if logs::is_on() { TRACER_WITH_LOGS } else { TRACER };
        let ebpf = EbpfLoader::new()
            .map_max_entries("EVENTS", options.ring_size)
            .map_max_entries("SNAPSHOTS", options.ring_size.max(SNAPSHOTS_SIZE_MIN))
            .map_max_entries("COUNTERS", processor_count)
            .load(object)?;
        Ok(Self { object, ebpf, processor_count, multi: HashMap::new() })
    }

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

    /// Loads a program for a purpose that aya 0.14 does not support. It takes the program's instructions from the object,
    /// relocates them to the maps that aya made, and loads them.
    pub(super) fn load_as(&self, name: &'static str, purpose: Purpose<'_>) -> Result<OwnedFd, BpfError> {
        let mut object = aya_obj::Object::parse(self.object).map_err(EbpfError::from)?;
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
        sys::load(&code, purpose).map_err(|(cause, log)| BpfError::refused(name, cause, &log))
    }
}

/// Gives the object's types to the kernel. Without them programs load too, but verification takes longer.
fn load_types(object: &mut aya_obj::Object) -> Option<OwnedFd> {
    let features = aya::features().btf()?;
    let types = object.fixup_and_sanitize_btf(features).ok()??.to_bytes();
    sys::load_btf(&types).inspect_err(|error| tracing::debug!("the kernel refused the types: {error}")).ok()
}
