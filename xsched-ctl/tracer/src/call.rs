//! A recorded call with everything resolved, ready to be shown or counted.

mod followed;

use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use xsched_abi::{Category, ParamKind, Probe, Words};
use xsched_chains::{Caller, Chain};
use xsched_protocol::deferred::{ADDED_CALLS, NOT_DEFERRED};
use xsched_symbols::is_shim;

pub(crate) use followed::{Followed, Settled};

/// One call of one thread to a runtime. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeCall {
    pub(crate) probe: &'static Probe,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) begin_ns: u64,
    /// When it returned; none for a call that was still in progress when recording ended.
    pub(crate) end_ns: Option<u64>,
    /// When its process ended or executed another program during the call.
    pub(crate) cut_ns: Option<u64>,
    pub(crate) ret: u64,
    pub(crate) words: Words,
    /// The handle that it returned through a pointer, or zero.
    pub(crate) out: u64,
    /// The name that it passed, if the probe reads one.
    pub(crate) text: Option<Arc<str>>,
    /// The kernel that it launches or names.
    pub(crate) kernel: Option<Arc<str>>,
    /// The number of nodes of the graph that it launches, if known.
    pub(crate) graph: Option<Nodes>,
    pub(crate) caller: Caller,
    /// File name of the library to which the call belongs by the rules; the caller's if they name none.
    pub(crate) origin: Arc<str>,
    /// The callers up to the outermost; none for functions whose chains are not recorded.
    pub(crate) chain: Option<Arc<Chain>>,
    /// The hardware queue that was created for its stream, if that was seen.
    pub(crate) queue: Option<u32>,
    /// Set if it is followed to its execution.
    pub(crate) followed: Option<Rc<Followed>>,
    /// Its verdict, if its process has reported it.
    pub(crate) judged: Option<Judged>,
}

/// The number of nodes in a graph, including contained graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nodes {
    pub(crate) kernels: u32,
    /// All nodes, except those that represent a contained graph.
    pub(crate) all: u32,
}

impl std::ops::Add for Nodes {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { kernels: self.kernels + more.kernels, all: self.all + more.all }
    }
}

/// The verdict on a call, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Its name in files of rules.
    pub(crate) verdict: &'static str,
    /// The highest preemption mode; 0: no limit.
    pub(crate) mode: u8,
    /// The name of the rule that gave it.
    pub(crate) rule: Arc<str>,
}

impl RuntimeCall {
    /// From the call until its execution began on the device, if that was seen.
    pub(crate) fn queue_delay_ns(&self) -> Option<u64> {
        self.followed.as_ref().and_then(|followed| followed.queue_delay_ns())
    }

    /// How long the host was in the call, if it has returned.
    pub(crate) fn duration_ns(&self) -> Option<u64> {
        Some(self.end_ns?.saturating_sub(self.begin_ns))
    }

    /// Whether the shim makes it by itself, or makes a deferred call.
    pub(crate) fn is_of_shim(&self) -> bool {
        self.caller.symbol.as_deref() == Some(ADDED_CALLS) && self.is_through_shim()
    }

    /// Whether it is the announcement of a call that was not deferred after all.
    pub(crate) fn was_not_deferred(&self) -> bool {
        self.ret as u32 == NOT_DEFERRED && self.is_through_shim()
    }

    fn is_through_shim(&self) -> bool {
        is_shim(Path::new(&*self.caller.library))
    }

    /// Whether it may be one that a shim defers.
    pub(crate) fn is_work(&self) -> bool {
        matches!(self.probe.category, Category::Launch | Category::Copy | Category::Set | Category::Graph)
    }

    pub(crate) fn is_launch(&self) -> bool {
        self.probe.category == Category::Launch
    }

    /// Whether it starts a kernel that is shown by its handle because its name is unknown. No identifier begins like
    /// this.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.is_launch() && self.kernel.as_deref().is_some_and(|kernel| kernel.starts_with("0x"))
    }

    /// Whether the programs record the chains of such calls.
    pub(crate) fn has_chain(&self) -> bool {
        self.probe.category != Category::Register
    }

    /// The arguments worth showing, in the table's order. Kernels are left out because they are shown by name.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = (&'static str, Argument)> {
        let block =
            self.probe.params.iter().find(|param| param.name == "block").map(|param| self.dims(*param));
        self.probe.params.iter().filter(|param| param.kind != ParamKind::Kernel).map(move |param| {
            let argument = match param.kind {
                ParamKind::Kernel | ParamKind::Pointer => Argument::Pointer(self.u64(param.offset)),
                ParamKind::Dim3 | ParamKind::Dims => Argument::Dims(self.dims(*param)),
                ParamKind::Threads => Argument::Dims(blocks(self.dims(*param), block.unwrap_or([1; 3]))),
                ParamKind::Stream => Argument::Stream(self.u64(param.offset)),
                ParamKind::Size => Argument::Number(self.u64(param.offset) as i64),
                ParamKind::U32 => Argument::Number(self.u32(param.offset).into()),
                ParamKind::I32 => Argument::Number((self.u32(param.offset) as i32).into()),
                ParamKind::CopyKind => Argument::CopyKind(self.u32(param.offset)),
            };
            (param.name, argument)
        })
    }

    fn dims(&self, param: xsched_abi::Param) -> [u32; 3] {
        let stride = if param.kind == ParamKind::Dim3 { 4 } else { 8 };
        [0, 1, 2].map(|axis| self.u32(param.offset + axis * stride))
    }

    fn u32(&self, offset: u8) -> u32 {
        let word = self.words[usize::from(offset / 8)];
        if offset.is_multiple_of(8) { word as u32 } else { (word >> 32) as u32 }
    }

    fn u64(&self, offset: u8) -> u64 {
        debug_assert!(offset.is_multiple_of(8), "pointers and sizes are aligned");
        self.words[usize::from(offset / 8)]
    }
}

/// Blocks along each axis, computed from threads; the last block may be partly filled.
fn blocks(threads: [u32; 3], block: [u32; 3]) -> [u32; 3] {
    [0, 1, 2].map(|axis| threads[axis].div_ceil(block[axis].max(1)))
}

/// A typed argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Blocks, or threads of a block.
    Dims([u32; 3]),
    /// `hipStream_t` or `CUstream`.
    Stream(u64),
    /// An address.
    Pointer(u64),
    /// A size, a count, a flag word.
    Number(i64),
    /// `hipMemcpyKind`.
    CopyKind(u32),
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Dims([x, y, z]) => write!(f, "{x}x{y}x{z}"),
            // Values with a meaning in HIP and CUDA (`hipStreamLegacy`, `hipStreamPerThread`), and handles.
            Self::Stream(0) => f.write_str("null"),
            Self::Stream(1) => f.write_str("legacy"),
            Self::Stream(2) => f.write_str("per-thread"),
            Self::Stream(handle) | Self::Pointer(handle) => write!(f, "{handle:#x}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::CopyKind(kind) => match kind {
                0 => f.write_str("host to host"),
                1 => f.write_str("host to device"),
                2 => f.write_str("device to host"),
                3 => f.write_str("device to device"),
                4 => f.write_str("default"),
                1024 => f.write_str("device to device, no compute units"),
                other => write!(f, "{other}"),
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
