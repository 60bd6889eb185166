//! The states of `libxsched_shim.so` and `libxsched_cuda.so`, for other processes that may read the process's memory.
//!
//! Each lies in its shim's data under a symbol, [`SHIM_STATUS_SYMBOL`] or [`CUDA_STATUS_SYMBOL`]. Each field is written whole, but a reader may see fields
//! of different moments.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The symbol of the shim's [`ShimStatus`].
pub const SHIM_STATUS_SYMBOL: &str = "xsched_shim_status";

/// First bytes of a [`ShimStatus`].
pub const SHIM_STATUS_MAGIC: [u8; 8] = *b"XSCHSHIM";

/// Changes whenever [`ShimStatus`] changes its layout or meaning.
pub const SHIM_STATUS_VERSION: u32 = 4;

/// Runtime copies that a shim distinguishes.
pub const SHIM_COPY_COUNT: usize = 4;

/// The shim in one process.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShimStatus {
    /// Magic number: [`SHIM_STATUS_MAGIC`].
    pub magic: [u8; 8],
    /// Version of the layout: [`SHIM_STATUS_VERSION`].
    pub version: u32,
    /// A [`ShimState`].
    pub state: u32,
    /// Runtime copies, in the order of their first calls; zero where there is none.
    pub copies: [ShimCopy; SHIM_COPY_COUNT],
    /// A [`ShimVerdicts`].
    pub verdicts: u32,
    /// A [`ShimScheduling`].
    pub scheduling: u32,
    /// Not 0: more places call HIP than the shim's table has entries.
    pub sites_full: u32,
    /// Devices by what gate they have, as it was tried last; one for each runtime copy that uses the device.
    pub gates: GateCounts,
}

/// One runtime copy.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShimCopy {
    /// Address that its file is mapped at; 0 for none.
    pub base: u64,
    /// Two [`ShimWay`]s: for the functions with which compiled code registers itself, and for all others.
    pub ways: [u32; 2],
    /// Entries replaced in its two dispatch tables.
    pub entries: u32,
    /// Those among them that the shim does not know, because the runtime is newer.
    pub newer_entries: u32,
}

/// Whether the shim is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ShimState {
    /// The process has not called HIP.
    Idle = 0,
    /// Calls pass through hooks.
    Active = 1,
    /// `XSCHED_DISABLE` is set.
    Disabled = 2,
}

/// What schedules the process, or why no controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ShimScheduling {
    /// It has not used a device yet.
    NotYet = 0,
    /// A controller, which it has joined.
    Controller = 1,
    /// None: it finds no controller that it trusts, and looks again every second.
    NoController = 2,
    /// None: the controller refuses it for its version.
    Version = 3,
    /// None: the controller has no room for it.
    Full = 4,
    /// None: the controller refuses it for another reason.
    Refused = 5,
    /// The process itself (`XSCHED_SCHEDULER=LCL`).
    Itself = 6,
    /// None: it is not to be scheduled (`XSCHED_SCHEDULER=APP`).
    Nothing = 7,
}

/// How the shim determines the origin of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ShimVerdicts {
    /// No call has needed a verdict yet.
    None = 0,
    /// By the library that a call returns to: no program walks the stack.
    Caller = 1,
    /// By the whole call chain, which the controller's programs walk.
    Programs = 2,
}

/// How calls of a runtime copy reach the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ShimWay {
    /// No call has reached it yet.
    Undecided = 0,
    /// By the symbols that the shim exports.
    Symbols = 1,
    /// By the runtime's dispatch table.
    Table = 2,
}

const _: () = assert!(size_of::<ShimCopy>() == 24 && size_of::<ShimStatus>() == 48 + SHIM_COPY_COUNT * 24);

/// The symbol of the CUDA shim's [`CudaStatus`].
pub const CUDA_STATUS_SYMBOL: &str = "xsched_cuda_status";

/// First bytes of a [`CudaStatus`].
pub const CUDA_STATUS_MAGIC: [u8; 8] = *b"XSCHCUDA";

/// Changes whenever [`CudaStatus`] changes its layout or meaning.
pub const CUDA_STATUS_VERSION: u32 = 2;

/// The shim for CUDA in one process.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CudaStatus {
    /// Magic number: [`CUDA_STATUS_MAGIC`].
    pub magic: [u8; 8],
    /// Version of the layout: [`CUDA_STATUS_VERSION`].
    pub version: u32,
    /// A [`ShimState`].
    pub state: u32,
    /// A [`ShimScheduling`].
    pub scheduling: u32,
    /// A [`ShimVerdicts`]. None: no rule needed more than the immediate caller.
    pub verdicts: u32,
    /// Instances of MIG that the process uses.
    pub instances: u32,
    /// Contexts by what gate they have, as it was tried last. One of which none was needed yet is not counted.
    pub contexts: GateCounts,
}

/// Contexts or devices by their gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GateCounts {
    /// In a page that the arbiter writes.
    pub shared: u32,
    /// In memory of the process's own, since driver or runtime have refused the page.
    pub own: u32,
    /// The same, since a page has no room for more contexts.
    pub beyond: u32,
    /// None that works.
    pub none: u32,
    /// One that is being tried.
    pub tried: u32,
}

const _: () = assert!(size_of::<GateCounts>() == 20 && size_of::<CudaStatus>() == 48);
