//! A recorded call with everything resolved, ready to be shown or counted.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use xsched_abi::{ParamKind, Probe, Words};
use xsched_chains::{Caller, Chain};

use crate::scheduling::{Followed, Judged};
use crate::session::Nodes;

/// One HIP call of one thread. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Debug)]
pub(crate) struct HipCall {
    /// The function.
    pub(crate) probe: &'static Probe,
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
    /// When it was entered.
    pub(crate) begin_ns: u64,
    /// When it returned; none for a call that was still in progress when recording ended.
    pub(crate) end_ns: Option<u64>,
    /// When its process ended or executed another program during the call.
    pub(crate) cut_ns: Option<u64>,
    /// What it returned.
    pub(crate) ret: u64,
    /// The argument words.
    pub(crate) words: Words,
    /// The handle that it returned through a pointer, or zero.
    pub(crate) out: u64,
    /// The name that it passed, if the probe reads one.
    pub(crate) text: Option<Arc<str>>,
    /// The kernel that it launches or names.
    pub(crate) kernel: Option<Arc<str>>,
    /// The number of nodes of the graph that it launches, if known.
    pub(crate) graph: Option<Nodes>,
    /// The immediate caller.
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

impl HipCall {
    /// From the call until its execution began on the device, if that was seen.
    pub(crate) fn queue_delay_ns(&self) -> Option<u64> {
        self.followed.as_ref().and_then(|followed| followed.queue_delay_ns())
    }

    /// How long the host was in the call, if it has returned.
    pub(crate) fn duration_ns(&self) -> Option<u64> {
        Some(self.end_ns?.saturating_sub(self.begin_ns))
    }

    /// Whether the call starts kernels.
    pub(crate) fn is_launch(&self) -> bool {
        self.probe.category == xsched_abi::Category::Launch
    }

    /// Whether it starts a kernel that is shown by its handle because its name is unknown. No identifier begins like
    /// this.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.is_launch() && self.kernel.as_deref().is_some_and(|kernel| kernel.starts_with("0x"))
    }

    /// Whether the programs record the chains of such calls.
    pub(crate) fn has_chain(&self) -> bool {
        self.probe.category != xsched_abi::Category::Register
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
    /// `hipStream_t`.
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
            // Values with a meaning in HIP (`hipStreamLegacy`, `hipStreamPerThread`), and handles.
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
pub(crate) mod tests {
    use xsched_abi::{PROBES, WORD_COUNT};

    use super::*;

    /// A call of `name` with everything else zero.
    pub(crate) fn call(name: &str) -> HipCall {
        HipCall {
            probe: PROBES.iter().find(|probe| probe.name == name).unwrap(),
            pid: 1,
            tid: 1,
            begin_ns: 0,
            end_ns: Some(0),
            cut_ns: None,
            ret: 0,
            words: [0; WORD_COUNT],
            out: 0,
            text: None,
            kernel: None,
            graph: None,
            caller: Caller { library: "libx.so".into(), symbol: None, address: 0 },
            chain: None,
            origin: "libx.so".into(),
            queue: None,
            followed: None,
            judged: None,
        }
    }

    fn shown(call: &HipCall) -> Vec<String> {
        call.arguments().map(|(name, argument)| format!("{name}={argument}")).collect()
    }

    #[test]
    fn dim3_by_value_is_unpacked_from_two_registers() {
        let mut call = call("hipLaunchKernel");
        call.words[..8].copy_from_slice(&[0xf, 2 << 32 | 64, 3, 5 << 32 | 256, 7, 0, 1024, 2]);
        assert_eq!(shown(&call), ["grid=64x2x3", "block=256x5x7", "shared_bytes=1024", "stream=per-thread"]);
    }

    #[test]
    fn separate_dimensions_ignore_the_upper_halves_of_their_words() {
        let mut call = call("hipModuleLaunchKernel");
        let dirt = 0xdead_beef << 32;
        call.words[..9].copy_from_slice(&[
            0xf,
            dirt | 8,
            dirt | 1,
            dirt | 1,
            dirt | 32,
            dirt | 1,
            dirt | 1,
            dirt,
            0x1000,
        ]);
        assert_eq!(shown(&call), ["grid=8x1x1", "block=32x1x1", "shared_bytes=0", "stream=0x1000"]);
    }

    #[test]
    fn grids_in_threads_become_blocks() {
        let mut call = call("hipExtModuleLaunchKernel");
        call.words[..9].copy_from_slice(&[0xf, 1000, 4, 1, 256, 4, 0, 0, 0]);
        assert_eq!(shown(&call), ["grid=4x1x1", "block=256x4x0", "shared_bytes=0", "stream=null"]);
    }

    #[test]
    fn launch_configurations_are_read_from_their_struct() {
        let mut call = call("hipLaunchKernelExC");
        call.words[6..].copy_from_slice(&[2 << 32 | 1, 4 << 32 | 3, 6 << 32 | 5, 64, 1]);
        assert_eq!(shown(&call), ["grid=1x2x3", "block=4x5x6", "shared_bytes=64", "stream=legacy"]);
    }

    #[test]
    fn copies_name_their_direction() {
        let mut call = call("hipMemcpyAsync");
        call.words[..5].copy_from_slice(&[0x10, 0x20, 4096, 2, 0]);
        assert_eq!(
            shown(&call),
            ["dst=0x10", "src=0x20", "bytes=4096", "kind=device to host", "stream=null"]
        );
    }
}
