//! A probed function: which of its arguments are read and shown, and how.

/// A probed function.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Its name in the runtime's headers, and the exported symbol unless [`aliases`](Self::aliases) has more.
    pub name: &'static str,
    /// The runtime that has it.
    pub runtime: Runtime,
    /// What functions of HIP and CUDA that do the same have in common: `ModuleGetFunction`. See [`stem`].
    pub stem: &'static str,
    /// Other symbols under which runtimes export it.
    pub aliases: &'static [&'static str],
    /// Its group, shown as the category of its slices.
    pub category: Category,
    /// Arguments worth showing.
    pub params: &'static [Param],
    /// Index of the argument that points to a NUL-terminated name.
    pub text: Option<u8>,
    /// Whether that argument points to where a pointer to the name is returned.
    pub is_text_returned: bool,
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
    /// Creates, records and queries events of the runtime.
    Event,
    /// Builds, captures and changes graphs.
    Graph,
    /// Selects and resets devices and contexts.
    Device,
}

/// A GPU runtime: the library whose functions are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// AMD's `libamdhip64`.
    Hip,
    /// NVIDIA's driver library, `libcuda`. CUDA's own runtime, `cudart`, calls it for everything that reaches a device.
    Cuda,
}

impl Runtime {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Hip, Self::Cuda];

    /// Its number in packets.
    pub const fn number(self) -> u32 {
        match self {
            Self::Hip => 1,
            Self::Cuda => 2,
        }
    }

    /// The runtime with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.number() == number)
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hip => "HIP",
            Self::Cuda => "CUDA",
        }
    }

    /// Beginning of the file names of its copies.
    pub const fn library(self) -> &'static str {
        match self {
            Self::Hip => "libamdhip64",
            Self::Cuda => "libcuda",
        }
    }

    /// The runtime to which a function belongs by its name.
    pub(super) const fn of_function(name: &str) -> Self {
        if name.as_bytes()[0] == b'c' { Self::Cuda } else { Self::Hip }
    }
}

/// Endings of a name that say its version, or that the null stream is the calling thread's.
const VARIANTS: [&str; 6] = ["_spt", "_ptsz", "_ptds", "_v2", "_v3", "_v4"];

/// A function's name without its runtime's prefix, its version, and the mark of per-thread default streams.
pub(super) const fn stem(name: &'static str) -> &'static str {
    let (mut stem, mut variant) = (name, 0);
    let mut prefix = 0;
    while prefix < PREFIXES.len() {
        if begins_with(stem, PREFIXES[prefix]) {
            stem = stem.split_at(PREFIXES[prefix].len()).1;
        }
        prefix += 1;
    }
    while variant < VARIANTS.len() {
        if ends_with(stem, VARIANTS[variant]) {
            stem = stem.split_at(stem.len() - VARIANTS[variant].len()).0;
        }
        variant += 1;
    }
    stem
}

const PREFIXES: [&str; 3] = ["__", "hip", "cu"];

const fn begins_with(text: &str, start: &str) -> bool {
    contains_at(text, start, 0)
}

const fn ends_with(text: &str, end: &str) -> bool {
    end.len() <= text.len() && contains_at(text, end, text.len() - end.len())
}

const fn contains_at(text: &str, part: &str, at: usize) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let mut index = 0;
    while index < part.len() {
        if at + index >= text.len() || text[at + index] != part[index] {
            return false;
        }
        index += 1;
    }
    true
}

impl Probe {
    /// Its category in traces: `hip.launch`, `cuda.launch`.
    pub const fn category_name(&self) -> &'static str {
        self.category.names()[self.runtime as usize]
    }

    /// Whether the null stream is the calling thread's own.
    pub const fn is_per_thread(&self) -> bool {
        ends_with(self.name, "_spt") || ends_with(self.name, "_ptsz") || ends_with(self.name, "_ptds")
    }
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

    /// Its name on the command line: `launch`, `copy`, …
    pub const fn name(self) -> &'static str {
        let name = self.names()[Runtime::Hip as usize];
        name.split_at("hip.".len()).1
    }

    /// Its name in traces, by runtime.
    const fn names(self) -> [&'static str; Runtime::ALL.len()] {
        match self {
            Self::Launch => ["hip.launch", "cuda.launch"],
            Self::Copy => ["hip.copy", "cuda.copy"],
            Self::Set => ["hip.set", "cuda.set"],
            Self::Module => ["hip.module", "cuda.module"],
            Self::Register => ["hip.register", "cuda.register"],
            Self::Stream => ["hip.stream", "cuda.stream"],
            Self::Synchronize => ["hip.synchronize", "cuda.synchronize"],
            Self::Memory => ["hip.memory", "cuda.memory"],
            Self::Event => ["hip.event", "cuda.event"],
            Self::Graph => ["hip.graph", "cuda.graph"],
            Self::Device => ["hip.device", "cuda.device"],
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
    /// `hipError_t` or `CUresult`.
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
    /// A kernel: host handle, `hipFunction_t`, `CUfunction` or `CUkernel`.
    Kernel,
    /// Three consecutive `u32`: blocks or threads per block.
    Dim3,
    /// Three words, a `u32` each.
    Dims,
    /// As [`ParamKind::Dims`], but the total of threads instead of blocks.
    Threads,
    /// `hipStream_t` or `CUstream`.
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
