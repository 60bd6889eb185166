//! A probed function: which of its arguments are read and shown, and how.

/// A probed function.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// HIP's name, and the exported symbol unless [`aliases`](Self::aliases) has more.
    pub name: &'static str,
    /// Other symbols under which runtimes export it.
    pub aliases: &'static [&'static str],
    /// Its group, shown as the category of its slices.
    pub category: Category,
    /// Arguments worth showing.
    pub params: &'static [Param],
    /// Index of the argument that points to a NUL-terminated name.
    pub text: Option<u8>,
    /// Index of the argument that points to where a handle is returned.
    pub out: Option<u8>,
    /// Memory of which 40 bytes are kept in place of the first stack arguments.
    pub pointee: Option<Pointee>,
    /// What the return register holds.
    pub ret: Return,
    /// Probed even where removing a probe takes 0.1 s, which is where there are no `uprobe_multi` links.
    pub is_vital: bool,
}

/// Memory that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointee {
    /// Index of the argument that points to a struct, or [`STACK`](Self::STACK).
    pub argument: u8,
    /// Offset of the first byte to read; a multiple of eight.
    pub offset: u16,
}

impl Pointee {
    /// In place of an index: the stack arguments themselves, for those that are not kept otherwise.
    pub const STACK: u8 = 14;
}

/// A group of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Starts kernels.
    Launch,
    /// Copies memory.
    Copy,
    /// Fills memory.
    Set,
    /// Loads and unloads code.
    Module,
    /// Registers an executable's or library's kernels before `main`.
    Register,
    /// Makes, destroys and orders streams.
    Stream,
    /// Waits on the host.
    Synchronize,
    /// Allocates, frees, maps and migrates memory.
    Memory,
    /// Creates, records and queries HIP events.
    Event,
    /// Builds, captures and changes graphs.
    Graph,
    /// Selects and resets devices and contexts.
    Device,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Launch,
        Self::Copy,
        Self::Set,
        Self::Memory,
        Self::Module,
        Self::Register,
        Self::Stream,
        Self::Synchronize,
        Self::Event,
        Self::Graph,
        Self::Device,
    ];

    /// Name of the category in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "hip.launch",
            Self::Copy => "hip.copy",
            Self::Set => "hip.set",
            Self::Module => "hip.module",
            Self::Register => "hip.register",
            Self::Stream => "hip.stream",
            Self::Synchronize => "hip.synchronize",
            Self::Memory => "hip.memory",
            Self::Event => "hip.event",
            Self::Graph => "hip.graph",
            Self::Device => "hip.device",
        }
    }

    /// Whether its calls give kernels their names. No filter drops them.
    pub const fn names_kernels(self) -> bool {
        matches!(self, Self::Module | Self::Register)
    }
}

/// Type of a probed function's return value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// `hipError_t`.
    Error,
    /// A pointer.
    Pointer,
    /// Nothing.
    Void,
}

/// An argument worth showing.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name of the annotation.
    pub name: &'static str,
    /// Type, which decides how it is shown.
    pub kind: ParamKind,
    /// Offset of its first byte within the call's words.
    pub offset: u8,
}

/// Type and layout of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A kernel: host handle or `hipFunction_t`.
    Kernel,
    /// Three consecutive `u32`: blocks or threads per block.
    Dim3,
    /// Three words, a `u32` each.
    Dims,
    /// As [`ParamKind::Dims`], but the total of threads instead of blocks.
    Threads,
    /// `hipStream_t`.
    Stream,
    /// A pointer.
    Pointer,
    /// `size_t`.
    Size,
    /// `unsigned int`.
    U32,
    /// `int`.
    I32,
    /// `hipMemcpyKind`.
    CopyKind,
}

impl ParamKind {
    /// Bytes that it takes, with the gaps between words.
    pub const fn size(self) -> usize {
        match self {
            Self::Kernel | Self::Stream | Self::Pointer | Self::Size => 8,
            Self::Dim3 => 12,
            Self::Dims | Self::Threads => 20,
            Self::U32 | Self::I32 | Self::CopyKind => 4,
        }
    }
}
