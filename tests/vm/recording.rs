//! One recording in the virtual machine: the timeline, and strace's output of the same run.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use xsched_perfetto::{OwnedSlice, OwnedValue, Scope, TraceEvent, TraceReader};
pub(crate) use xsched_tests::tracer::{Outcome, run};

/// A file in the folder that the virtual machine shares with its host.
pub(crate) fn host(name: &str) -> PathBuf {
    Path::new(&env::var_os("XSCHED_VM").expect("the need was probed")).join(name)
}

/// A program of `programs/`, or one by its path. Copies go through the copy engines, whose calls the tests expect. ROCm 6 keeps what it
/// compiles at run time, which takes a minute.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(host(name));
    command.env("HSA_ENABLE_SDMA", "1");
    command.env("AMD_COMGR_CACHE", "1").env("AMD_COMGR_CACHE_DIR", "/tmp/comgr");
    command
}

/// The recording of a program that ran under strace.
pub(crate) struct Recording {
    pub(crate) name: &'static str,
    pub(crate) code: i32,
    pub(crate) stderr: String,
    slices: Vec<Slice>,
    straced: String,
}

/// A slice, with the fields that tests read.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) thread: u32,
    begin_ns: u64,
    end_ns: u64,
    annotations: BTreeMap<String, OwnedValue>,
}

impl Slice {
    fn new(slice: &OwnedSlice) -> Option<Self> {
        let Scope::Thread(thread) = slice.scope else { return None };
        Some(Self {
            name: slice.name.to_string(),
            category: slice.category.to_string(),
            thread: thread.tid,
            begin_ns: slice.begin_ns,
            end_ns: slice.end_ns.unwrap_or(u64::MAX),
            annotations: slice.annotations.iter().map(|a| (a.name.to_string(), a.value.clone())).collect(),
        })
    }

    /// An annotation as text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        Some(match self.annotations.get(name)? {
            OwnedValue::Str(text) => text.to_string(),
            OwnedValue::Pointer(address) => format!("{address:#x}"),
            other => format!("{other:?}"),
        })
    }

    /// An annotation that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match *self.annotations.get(name)? {
            OwnedValue::U64(number) => i64::try_from(number).ok(),
            OwnedValue::I64(number) => Some(number),
            _ => None,
        }
    }

    /// Whether the other slice lies within this one.
    pub(crate) fn encloses(&self, other: &Self) -> bool {
        self.begin_ns <= other.begin_ns && other.end_ns <= self.end_ns
    }
}

impl Recording {
    /// Records a program of `programs/` that runs under strace.
    pub(crate) fn of(name: &'static str, options: &[&str], program: &str) -> Self {
        let trace = host(&format!("{name}.perfetto"));
        let strace = host(&format!("{name}.strace"));
        let mut command = Command::new(host("xsched-ctl"));
        command.arg("trace").args(options).arg("-o").arg(&trace).arg("--");
        // Raw numbers, since strace's names are shared by several drivers.
        command.args(["strace", "-f", "-X", "raw", "-e", "trace=ioctl", "-o"]).arg(&strace);
        let Outcome { code, stderr, .. } = run(command.arg(host(program)).env("HSA_ENABLE_SDMA", "1"));
        let file =
            File::open(&trace).unwrap_or_else(|error| panic!("{}: {error}: {stderr}", trace.display()));
        let mut slices = Vec::new();
        for event in TraceReader::new(BufReader::new(file)) {
            if let TraceEvent::Slice(slice) = event.expect("the tracer writes what its reader reads") {
                slices.extend(Slice::new(&slice));
            }
        }
        let straced = fs::read_to_string(&strace).unwrap_or_default();
        Self { name, code, stderr, slices, straced }
    }

    /// Slices of HIP calls.
    pub(crate) fn hip(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(|slice| slice.category.starts_with("hip."))
    }

    /// Slices of calls to the driver.
    pub(crate) fn driver(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(|slice| slice.category.starts_with("driver."))
    }

    /// Number of calls to the driver by command, and of failed ones. An interrupted call does not count as failed: when a
    /// process ends during a call, the tracer records an error, and strace prints no result.
    pub(crate) fn driver_calls_by_command(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in self.driver() {
            let error = call.text("error").filter(|error| error != "EINTR" && !error.starts_with("ERESTART"));
            let failed = if error.is_some() { " failed" } else { "" };
            *counts.entry(format!("{}{failed}", call.name)).or_insert(0) += 1;
        }
        counts
    }

    /// The same counts, from strace.
    pub(crate) fn straced_by_command(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in self.straced.lines() {
            // A call that is interrupted by another thread's is on two lines; the second has the result.
            let Some((_, call)) = line.split_once("ioctl(") else {
                continue;
            };
            let Some(command) = call.split(", ").nth(1).and_then(|word| word.strip_prefix("0x")) else {
                continue;
            };
            let digits = command.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default();
            let Some(name) = u32::from_str_radix(digits, 16).ok().and_then(command_name) else { continue };
            let result = self.result(line);
            let failed =
                if result.contains("= -1 ") && !result.contains("= -1 EINTR") { " failed" } else { "" };
            *counts.entry(format!("{name}{failed}")).or_insert(0) += 1;
        }
        counts
    }

    /// The line that has a call's result: its own, or the one on which its thread's call is resumed.
    fn result<'a>(&'a self, line: &'a str) -> &'a str {
        if !line.contains("<unfinished") {
            return line;
        }
        let thread = line.split_whitespace().next().unwrap_or_default();
        let (_, rest) = self.straced.split_once(line).expect("the line is from there");
        rest.lines()
            .find(|later| later.split_whitespace().next() == Some(thread) && later.contains("resumed>"))
            .unwrap_or_default()
    }
}

/// The name of a command of AMD's devices, for those that ROCm 5.2.3 uses.
fn command_name(command: u32) -> Option<&'static str> {
    const KFD: [(u32, &str); 22] = [
        (0x01, "AMDKFD_IOC_GET_VERSION"),
        (0x02, "AMDKFD_IOC_CREATE_QUEUE"),
        (0x03, "AMDKFD_IOC_DESTROY_QUEUE"),
        (0x04, "AMDKFD_IOC_SET_MEMORY_POLICY"),
        (0x05, "AMDKFD_IOC_GET_CLOCK_COUNTERS"),
        (0x07, "AMDKFD_IOC_UPDATE_QUEUE"),
        (0x08, "AMDKFD_IOC_CREATE_EVENT"),
        (0x09, "AMDKFD_IOC_DESTROY_EVENT"),
        (0x0a, "AMDKFD_IOC_SET_EVENT"),
        (0x0b, "AMDKFD_IOC_RESET_EVENT"),
        (0x0c, "AMDKFD_IOC_WAIT_EVENTS"),
        (0x11, "AMDKFD_IOC_SET_SCRATCH_BACKING_VA"),
        (0x12, "AMDKFD_IOC_GET_TILE_CONFIG"),
        (0x13, "AMDKFD_IOC_SET_TRAP_HANDLER"),
        (0x14, "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW"),
        (0x15, "AMDKFD_IOC_ACQUIRE_VM"),
        (0x16, "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU"),
        (0x17, "AMDKFD_IOC_FREE_MEMORY_OF_GPU"),
        (0x18, "AMDKFD_IOC_MAP_MEMORY_TO_GPU"),
        (0x19, "AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU"),
        (0x21, "AMDKFD_IOC_SET_XNACK_MODE"),
        (0x82, "AMDKFD_IOC_DBG_TRAP_DEPRECATED"),
    ];
    let number = command & 0xff;
    match (command >> 8 & 0xff) as u8 {
        b'K' => Some(KFD.iter().find(|(known, _)| *known == number).map_or("unknown", |(_, name)| name)),
        b'd' => Some(match number {
            0x00 => "DRM_IOCTL_VERSION",
            0x45 => "DRM_AMDGPU_INFO",
            _ => "unknown",
        }),
        _ => None,
    }
}
