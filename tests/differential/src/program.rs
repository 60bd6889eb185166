//! A program: the HIP calls of each of its threads, in order.
//!
//! All steps are in one list, in an order in which the program can run; each thread executes its own steps in
//! that order, in parallel with the others. `Signal` and `Await` order threads among themselves. Objects have
//! numbers, which the creating step assigns and which are never reused. As text, a program is one line per
//! step, in RON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Threads that a program can have; thread 0 begins and ends it.
pub const THREADS: usize = 3;
/// Devices that a program expects to find.
pub const DEVICES: usize = 2;
/// Streams that a program can create.
pub const STREAMS_MAX: usize = 8;
/// Cells that a buffer can have.
pub const CELLS_MAX: usize = 4;
/// Words of a cell that kernels and host functions use.
pub const CELL_WORDS: usize = 64;
/// Distance of cells in bytes.
pub const CELL_BYTES: usize = CELL_WORDS * 4;
/// Size of a large buffer's only cell in bytes: more than the runtime stages for an asynchronous copy.
pub const LARGE_BYTES: usize = (1 << 20) + 4096;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u8);

        impl $name {
            /// The number as an index.
            pub fn index(self) -> usize {
                self.0.into()
            }
        }
    )*};
}

numbers! {
    /// A thread of the program.
    Thread;
    /// A buffer of any kind of memory.
    Buffer;
    /// An event.
    Event;
    /// An executable graph.
    Graph;
    /// Blocks a stream until the host opens it.
    Gate;
    /// A signal from one thread to another.
    Token;
    /// A device's ordinal.
    Device;
}

/// A stream, as calls name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Handle 0.
    Null,
    /// Handle 1, the same stream.
    Legacy,
    /// Handle 2, the calling thread's own stream.
    PerThread,
    /// A stream that the program has created.
    Made(u8),
}

/// How a stream is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// `hipStreamCreate`
    Blocking,
    /// `hipStreamCreateWithFlags`, not ordered with the null stream.
    NonBlocking,
    /// `hipStreamCreateWithPriority`, not ordered with the null stream.
    Priority(i8),
}

/// How an event is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// `hipEventCreate`
    Timed,
    /// With `hipEventDisableTiming`.
    Untimed,
    /// With `hipEventBlockingSync`.
    Blocking,
}

/// The memory of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// `hipMalloc`
    Device,
    /// `hipMallocAsync`, in a stream's order.
    Pooled,
    /// `hipHostMalloc`
    Pinned,
    /// `hipMallocManaged`
    Managed,
    /// Memory of the C library.
    Pageable,
    /// `hipMallocArray`: a row for each cell; only copies access it.
    Array,
}

impl Memory {
    /// Whether the host may read and write it.
    pub fn is_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Managed | Self::Pageable)
    }

    /// Whether kernels may read and write it.
    pub fn is_device(self) -> bool {
        !matches!(self, Self::Pageable | Self::Array)
    }
}

/// A cell of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell(pub Buffer, pub u8);

/// The kernels. Each computes `to` from `to`, `from` and `key`, so that a swap of two launches changes the
/// result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kernel {
    /// Plain arguments.
    Mix,
    /// A structure of 168 bytes by value.
    Wide,
    /// Ten arguments of one to eight bytes.
    Many,
    /// No arguments and no effect.
    Nothing,
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Launch {
    /// `<<<..>>>`
    Chevrons,
    /// `hipLaunchKernel`
    Plain,
    /// `hipLaunchKernel_spt`, for which handle 0 means the thread's own stream.
    Spt,
    /// `hipLaunchCooperativeKernel`
    Cooperative,
    /// `hipExtLaunchKernel`
    Ext,
    /// `hipModuleLaunchKernel` with a list of pointers.
    ModuleList,
    /// `hipModuleLaunchKernel` with a buffer.
    ModuleBuffer,
    /// `hipModuleLaunchCooperativeKernel`
    ModuleCooperative,
    /// `hipLaunchKernelExC`, from HIP 6.5 on; before, `hipLaunchKernel`.
    Config,
    /// The same with three attributes, of which the last makes it cooperative.
    ConfigCooperative,
    /// `hipDrvLaunchKernelEx`, from HIP 6.5 on; before, `hipModuleLaunchKernel`.
    DriverConfig,
    /// The same with attributes; before, `hipModuleLaunchCooperativeKernel`.
    DriverConfigCooperative,
    /// `hipModuleLaunchKernel` of the result of `hipGetFuncBySymbol`, from HIP 6.2 on.
    SymbolFunction,
    /// `hipModuleLaunchKernel` of a library's kernel, from HIP 7.2 on.
    LibraryKernel,
}

/// How memory is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Copy {
    /// `hipMemcpyAsync`
    Async,
    /// `hipMemcpyAsync_spt`, for which handle 0 means the thread's own stream.
    Spt,
    /// `hipMemcpyHtoDAsync` and the other driver functions, selected by the kinds of memory.
    Driver,
    /// `hipMemcpy2DAsync`, `hipMemcpy2DToArrayAsync` and `hipMemcpy2DFromArrayAsync`.
    Rows,
    /// `hipMemcpy3DAsync`
    Box,
    /// `hipMemcpyParam2DAsync`
    DriverRows,
    /// `hipDrvMemcpy3DAsync`
    DriverBox,
    /// `hipMemcpyHtoAAsync` and `hipMemcpyAtoHAsync` for an array's first row, from HIP 6 on. Before, and for
    /// other rows, like `Rows`.
    DriverArray,
    /// `hipMemcpyPeerAsync`
    Peer,
    /// `hipMemcpy3DPeerAsync`, from HIP 7.1 on; before, `hipMemcpyPeerAsync`.
    PeerBox,
    /// `hipMemcpyToSymbolAsync` and `hipMemcpyFromSymbolAsync`, through the stream's own part of a variable.
    Symbol,
    /// `hipMemcpyBatchAsync` of both halves, from HIP 7.1 on; before, and on the null stream,
    /// `hipMemcpyAsync`.
    Batch,
    /// `hipMemcpy3DBatchAsync` of both halves of the rows, from HIP 7.1 on; before, `hipMemcpy3DAsync`.
    BatchBox,
    /// `hipMemcpyWithStream`: the host waits.
    WithStream,
    /// `hipMemcpy`, on the null stream.
    Sync,
}

/// How memory is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fill {
    /// `hipMemsetAsync`
    Async,
    /// `hipMemsetD8Async`
    Bytes,
    /// `hipMemsetD16Async`
    HalfWords,
    /// `hipMemsetD32Async`
    Words,
    /// `hipMemsetD2D8Async`, `hipMemsetD2D16Async` or `hipMemsetD2D32Async`, as the value has it, from HIP 7.1 on; before,
    /// `hipMemset2DAsync`.
    DriverRows,
    /// `hipMemset2DAsync`
    Rows,
    /// `hipMemset3DAsync`
    Box,
    /// `hipMemset`, on the null stream.
    Sync,
}

/// How a stream writes a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// `hipStreamWriteValue32`
    #[default]
    Value,
    /// `hipStreamWriteValue64`
    Wide,
    /// `hipStreamBatchMemOp` for words of both sizes, from HIP 7 on; before, `hipStreamWriteValue32`.
    Batch,
}

/// How a stream moves memory, whose contents stay the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Move {
    /// `hipMemPrefetchAsync`
    Prefetch,
    /// `hipMemPrefetchAsync_v2`, from HIP 7 on; before, `hipMemPrefetchAsync`.
    PrefetchTo,
    /// `hipStreamAttachMemAsync`
    Attach,
}

/// The names under which a thread calls functions that have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// The functions' own names.
    Plain,
    /// With the suffix `_spt`, as in code compiled for per-thread null streams; the streams stay the same.
    PerThread,
}

/// How a stream calls the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCall {
    /// `hipLaunchHostFunc`
    Function,
    /// `hipStreamAddCallback`
    Callback,
}

/// A stream's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A kernel.
    Kernel {
        /// The kernel.
        kernel: Kernel,
        /// How it is launched.
        by: Launch,
        /// Read and written.
        to: Cell,
        /// Read.
        from: Cell,
        /// Goes into all arguments passed by value.
        key: u32,
    },
    /// A copy of one cell.
    Copy {
        /// The function used.
        by: Copy,
        /// Written.
        to: Cell,
        /// Read.
        from: Cell,
    },
    /// A fill of one cell.
    Fill {
        /// The function used.
        by: Fill,
        /// Written.
        to: Cell,
        /// The value of each byte.
        value: u8,
    },
    /// A host function that does the same as the kernel `Mix`.
    Host {
        /// The function used.
        by: HostCall,
        /// Read and written.
        to: Cell,
        /// Read.
        from: Cell,
        /// As for a kernel.
        key: u32,
    },
    /// A write to a cell's first word.
    WriteValue {
        /// The function used.
        #[serde(default)]
        by: Write,
        /// Written.
        to: Cell,
        /// The word.
        value: u32,
    },
    /// Moves managed memory.
    Move {
        /// The function used.
        by: Move,
        /// The cell to move.
        what: Cell,
    },
}

/// How a gate blocks a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GateKind {
    /// A host function that waits.
    Function,
    /// `hipStreamWaitValue32` for a word that the host writes.
    Value,
    /// `hipStreamWaitValue64`
    Wide,
    /// `hipStreamBatchMemOp`, from HIP 7 on; before, `hipStreamWaitValue32`.
    Batch,
}

/// `hipStreamCaptureMode`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CaptureMode {
    /// Forbids unsafe calls to all threads.
    Global,
    /// Forbids them to the capturing thread.
    ThreadLocal,
    /// Forbids them to no thread.
    Relaxed,
}

/// A node of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Earlier nodes of the list that it depends on.
    pub after: Vec<u8>,
    /// The node's work; the function in it does not matter.
    pub work: Work,
}

/// A call that fails on purpose and has no other effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mistake {
    /// A launch of no blocks.
    NoBlocks,
    /// A launch of blocks that are too large.
    LargeBlock,
    /// A launch of null.
    NoKernel,
    /// A launch of an address that is no kernel.
    NotAKernel,
    /// A launch of a function with a list of pointers and a buffer.
    TwoKindsOfArguments,
    /// A launch with more dynamic local data share than the device has.
    LargeShare,
    /// A copy to null.
    CopyToNull,
    /// A copy in a direction that does not exist.
    CopyDirection,
    /// A copy past the end of a fresh allocation.
    CopyTooLong,
    /// A fill of null.
    FillNull,
    /// A record of a null event.
    RecordNull,
    /// A wait for a null event.
    WaitNull,
    /// A synchronisation with a null event.
    SyncNull,
    /// A null host function.
    NoFunction,
    /// An end of a capture that never began.
    EndOfNoCapture,
    /// A launch of a null graph.
    LaunchNoGraph,
    /// A device that does not exist.
    NoDevice,
    /// A free of an address that was never allocated.
    FreeNonsense,
    /// A null out-parameter.
    MallocToNull,
    /// A stream with unknown flags.
    StreamFlags,
    /// A function that the module does not have.
    NoSuchFunction,
    /// A destruction of the null stream.
    DestroyNullStream,
    /// A cooperative launch of more blocks than fit onto the device.
    ManyBlocks,
    /// A copy to a device that does not exist.
    PeerNoDevice,
    /// A box that exceeds its memory.
    LargeBox,
    /// A copy to an array that is null.
    NoArray,
    /// A launch with attributes of which none makes it cooperative, from HIP 6.5 on; before, of no blocks.
    NotCooperative,
    /// A batch of boxes with an unknown access order, from HIP 7.1 on; before, a box that exceeds its memory.
    NoOrder,
    /// A move of managed memory to a device that does not exist.
    MoveNowhere,
    /// A move of memory that belongs to a device.
    MoveFixed,
}

/// All mistakes.
pub const MISTAKES: [Mistake; 30] = [
    Mistake::NoBlocks,
    Mistake::LargeBlock,
    Mistake::NoKernel,
    Mistake::NotAKernel,
    Mistake::TwoKindsOfArguments,
    Mistake::LargeShare,
    Mistake::CopyToNull,
    Mistake::CopyDirection,
    Mistake::CopyTooLong,
    Mistake::FillNull,
    Mistake::RecordNull,
    Mistake::WaitNull,
    Mistake::SyncNull,
    Mistake::NoFunction,
    Mistake::EndOfNoCapture,
    Mistake::LaunchNoGraph,
    Mistake::NoDevice,
    Mistake::FreeNonsense,
    Mistake::MallocToNull,
    Mistake::StreamFlags,
    Mistake::NoSuchFunction,
    Mistake::DestroyNullStream,
    Mistake::ManyBlocks,
    Mistake::PeerNoDevice,
    Mistake::LargeBox,
    Mistake::NoArray,
    Mistake::NotCooperative,
    Mistake::NoOrder,
    Mistake::MoveNowhere,
    Mistake::MoveFixed,
];

/// One step of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// `hipSetDevice`
    SetDevice(Device),
    /// The names of the thread's functions from now on; initially their own.
    Name(Names),
    /// Signals the token once, for the threads that await it.
    Signal(Token),
    /// Waits until the token is signalled.
    Await(Token),
    /// Creates a stream on the thread's device.
    MakeStream(u8, StreamKind),
    /// `hipStreamDestroy`
    DestroyStream(u8),
    /// Creates an event on the thread's device.
    MakeEvent(Event, EventKind),
    /// `hipEventDestroy`
    DestroyEvent(Event),
    /// Allocates memory other than pooled memory, and fills it from the host or synchronously.
    Allocate {
        /// Its number.
        buffer: Buffer,
        /// Kind of memory.
        memory: Memory,
        /// Number of cells; 0 creates a large buffer with one cell.
        cells: u8,
    },
    /// `hipMallocAsync`; the contents are undefined until written.
    AllocateAsync {
        /// Its number.
        buffer: Buffer,
        /// The stream in whose order it allocates.
        stream: Stream,
        /// Number of cells.
        cells: u8,
        /// Whether it uses `hipMallocFromPoolAsync`, with a pool other than the device's.
        #[serde(default)]
        own_pool: bool,
    },
    /// `hipFree`, or the function for the memory's kind.
    Free(Buffer),
    /// `hipFreeAsync` of pooled memory.
    FreeAsync(Buffer, Stream),
    /// Work on a stream.
    Submit(Stream, Work),
    /// A kernel between two events: `hipExtLaunchKernel`, `hipExtModuleLaunchKernel`,
    /// `hipHccModuleLaunchKernel`.
    Timed(Stream, Work, Option<Event>, Option<Event>),
    /// `hipEventRecord`
    Record(Event, Stream),
    /// `hipStreamWaitEvent`
    Wait(Stream, Event),
    /// `hipStreamSynchronize`
    SyncStream(Stream),
    /// `hipEventSynchronize`
    SyncEvent(Event),
    /// `hipDeviceSynchronize`
    SyncDevice,
    /// `hipStreamQuery`
    QueryStream(Stream),
    /// `hipEventQuery`
    QueryEvent(Event),
    /// `hipEventElapsedTime`
    Elapsed(Event, Event),
    /// The host fills a cell.
    HostWrite(Cell, u32),
    /// The host reads a cell.
    HostRead(Cell),
    /// Closes a gate in a stream.
    Hold(Gate, Stream, GateKind),
    /// Opens the gate.
    Release(Gate),
    /// `hipStreamBeginCapture`
    BeginCapture(u8, CaptureMode),
    /// `hipStreamEndCapture`; also makes the graph executable.
    EndCapture(u8, Graph),
    /// Builds a graph node by node and makes it executable.
    BuildGraph(Graph, Vec<Node>),
    /// `hipGraphLaunch`
    LaunchGraph(Graph, Stream),
    /// `hipGraphUpload`
    UploadGraph(Graph, Stream),
    /// `hipGraphExecDestroy`
    DestroyGraph(Graph),
    /// `hipGetLastError`
    LastError,
    /// `hipPeekAtLastError`
    PeekError,
    /// A kernel that accesses unallocated memory, after which the device is unusable: see `order/fault.rs`.
    Fault(Stream),
    /// A call that fails; mistakes that need a stream use this one.
    Wrong(Mistake, Stream),
}

/// A step and its thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step(pub Thread, pub Op);

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// In an order in which they can run.
    pub steps: Vec<Step>,
}

/// A text that is not a program.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is not a step of a program")]
pub struct ParseError {
    line: usize,
    source: ron::error::SpannedError,
}

impl Program {
    /// Whether it ends with a device fault, after which nothing works in the process.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.steps.iter().any(|Step(_, op)| matches!(op, Op::Fault(_)))
    }

    /// Parses the output of `Display`; empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    ///
    /// Names the first line that is not a step.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let steps = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let steps =
            steps.map(|(line, text)| ron::from_str(text).map_err(|source| ParseError { line, source }));
        Ok(Self { steps: steps.collect::<Result<_, _>>()? })
    }

    /// Number of threads that have steps, counted from 0.
    pub fn threads(&self) -> usize {
        self.steps.iter().map(|step| step.0.index() + 1).max().unwrap_or(1)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let line = ron::to_string(step).map_err(|_| fmt::Error)?;
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_parsed_from_its_text() {
        let text = "# a comment\n(0,MakeStream(1,Priority(-1)))\n\n  (2,Submit(Made(1),Fill(by:Words,to:(3,1),value:7)))\n";
        let program = Program::parse(text).unwrap();
        let fill = Work::Fill { by: Fill::Words, to: Cell(Buffer(3), 1), value: 7 };
        let expected = vec![
            Step(Thread(0), Op::MakeStream(1, StreamKind::Priority(-1))),
            Step(Thread(2), Op::Submit(Stream::Made(1), fill)),
        ];
        assert_eq!(program.steps, expected);
        assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
        assert_eq!(program.threads(), 3);
    }

    #[test]
    fn a_line_that_is_not_a_step_is_named() {
        let error = Program::parse("(0,SyncDevice)\n(0,Sync)\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2 is not a step of a program");
    }
}
