//! A program: what each of its threads asks of HIP, one step after the other.
//!
//! Steps stand in one list, in an order in which the program can run; each thread executes its own steps in that
//! order, beside the others. What orders threads among themselves is `Signal` and `Await`. Objects have numbers, given by
//! the step that makes them and never used twice. As text, a program is a line per step, in RON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Threads that a program can have; thread 0 begins and ends it.
pub const THREADS: usize = 3;
/// Devices that a program expects to find.
pub const DEVICES: usize = 2;
/// Streams that a program can make.
pub const STREAMS_MAX: usize = 8;
/// Cells that a buffer can have.
pub const CELLS_MAX: usize = 4;
/// Words of a cell that kernels and host functions work on.
pub const CELL_WORDS: usize = 64;
/// Distance of cells in bytes.
pub const CELL_BYTES: usize = CELL_WORDS * 4;
/// Size of a large buffer's only cell in bytes: more than the runtime copies aside for an asynchronous copy.
pub const LARGE_BYTES: usize = (1 << 20) + 4096;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u8);

        impl $name {
            /// As an index.
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
    /// What holds a stream up until the host says otherwise.
    Gate;
    /// What one thread tells another.
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
    /// Handle 2, the calling thread's own.
    PerThread,
    /// One that the program has made.
    Made(u8),
}

/// How a stream is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// `hipStreamCreate`
    Blocking,
    /// `hipStreamCreateWithFlags`, unrelated to the null stream.
    NonBlocking,
    /// `hipStreamCreateWithPriority`, unrelated to the null stream.
    Priority(i8),
}

/// How an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// `hipEventCreate`
    Timed,
    /// With `hipEventDisableTiming`.
    Untimed,
    /// With `hipEventBlockingSync`.
    Blocking,
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// `hipMalloc`
    Device,
    /// `hipMallocAsync`, in a stream's turn.
    Pooled,
    /// `hipHostMalloc`
    Pinned,
    /// `hipMallocManaged`
    Managed,
    /// The C library's.
    Pageable,
    /// `hipMallocArray`: a row for each cell, which only copies touch.
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

/// The kernels. Each makes `to` from `to`, `from` and `key`, so that no two of them can change places.
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
    /// `hipLaunchKernel_spt`, to which handle 0 means the thread's own stream.
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
    /// `hipModuleLaunchKernel` of what `hipGetFuncBySymbol` says, from HIP 6.2 on.
    SymbolFunction,
    /// `hipModuleLaunchKernel` of a library's kernel, from HIP 7.2 on.
    LibraryKernel,
}

/// How memory is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Copy {
    /// `hipMemcpyAsync`
    Async,
    /// `hipMemcpyAsync_spt`, to which handle 0 means the thread's own stream.
    Spt,
    /// `hipMemcpyHtoDAsync` and its relatives, by the kinds of memory.
    Driver,
    /// `hipMemcpy2DAsync`, `hipMemcpy2DToArrayAsync` and `hipMemcpy2DFromArrayAsync`.
    Rows,
    /// `hipMemcpy3DAsync`
    Box,
    /// `hipMemcpyParam2DAsync`
    DriverRows,
    /// `hipDrvMemcpy3DAsync`
    DriverBox,
    /// `hipMemcpyHtoAAsync` and `hipMemcpyAtoHAsync`, from HIP 6 on, of an array's first row; before, and of other
    /// rows, as `Rows` does it.
    DriverArray,
    /// `hipMemcpyPeerAsync`
    Peer,
    /// `hipMemcpy3DPeerAsync`, from HIP 7.1 on; before, `hipMemcpyPeerAsync`.
    PeerBox,
    /// `hipMemcpyToSymbolAsync` and `hipMemcpyFromSymbolAsync`, through a part of a variable that is the stream's.
    Symbol,
    /// `hipMemcpyBatchAsync` of both halves, from HIP 7.1 on; before, and on the null stream, `hipMemcpyAsync`.
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
    /// `hipStreamBatchMemOp` of words of both sizes, from HIP 7 on; before, `hipStreamWriteValue32`.
    Batch,
}

/// How a stream says where memory is to be, whose contents stay what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Move {
    /// `hipMemPrefetchAsync`
    Prefetch,
    /// `hipMemPrefetchAsync_v2`, from HIP 7 on; before, `hipMemPrefetchAsync`.
    PrefetchTo,
    /// `hipStreamAttachMemAsync`
    Attach,
}

/// Under which names a thread calls the functions that have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// Their own.
    Plain,
    /// With `_spt` behind them, as in code that is compiled for per-thread null streams; the streams stay what they are.
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

/// What a stream does in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A kernel.
    Kernel {
        /// Which.
        kernel: Kernel,
        /// How it is launched.
        by: Launch,
        /// Read and written.
        to: Cell,
        /// Read.
        from: Cell,
        /// Goes into all arguments by value.
        key: u32,
    },
    /// A copy of one cell.
    Copy {
        /// By which function.
        by: Copy,
        /// Written.
        to: Cell,
        /// Read.
        from: Cell,
    },
    /// A fill of one cell.
    Fill {
        /// By which function.
        by: Fill,
        /// Written.
        to: Cell,
        /// Each byte.
        value: u8,
    },
    /// A function of the host that does what the kernel `Mix` does.
    Host {
        /// By which function.
        by: HostCall,
        /// Read and written.
        to: Cell,
        /// Read.
        from: Cell,
        /// As of a kernel.
        key: u32,
    },
    /// A write to a cell's first word.
    WriteValue {
        /// By which function.
        #[serde(default)]
        by: Write,
        /// Written.
        to: Cell,
        /// The word.
        value: u32,
    },
    /// Managed memory is to be somewhere.
    Move {
        /// By which function.
        by: Move,
        /// Of which cell.
        what: Cell,
    },
}

/// What holds a stream up.
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
    /// To the capturing thread.
    ThreadLocal,
    /// To nobody.
    Relaxed,
}

/// A node of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Earlier nodes of the list that it waits for.
    pub after: Vec<u8>,
    /// What it does; by which function does not matter.
    pub work: Work,
}

/// A call that fails, on purpose. It has no other effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mistake {
    /// A launch of no blocks.
    NoBlocks,
    /// A launch of blocks that are too large.
    LargeBlock,
    /// A launch of null.
    NoKernel,
    /// A launch of something that is no kernel.
    NotAKernel,
    /// A launch of a function with a list of pointers and a buffer.
    TwoKindsOfArguments,
    /// A launch with more dynamic local data share than there is.
    LargeShare,
    /// A copy to null.
    CopyToNull,
    /// A copy in a direction that does not exist.
    CopyDirection,
    /// A copy past the end of a fresh allocation.
    CopyTooLong,
    /// A fill of null.
    FillNull,
    /// A null event recorded.
    RecordNull,
    /// A null event waited for.
    WaitNull,
    /// A null event synchronised with.
    SyncNull,
    /// A host function that is null.
    NoFunction,
    /// An end of a capture that never began.
    EndOfNoCapture,
    /// A graph that is null launched.
    LaunchNoGraph,
    /// A device that does not exist.
    NoDevice,
    /// An address freed that nobody gave.
    FreeNonsense,
    /// A null pointer to put the result in.
    MallocToNull,
    /// A stream with unknown flags.
    StreamFlags,
    /// A function that the module does not have.
    NoSuchFunction,
    /// The null stream destroyed.
    DestroyNullStream,
    /// A cooperative launch of more blocks than fit onto the device.
    ManyBlocks,
    /// A copy to a device that does not exist.
    PeerNoDevice,
    /// A box that leaves its memory.
    LargeBox,
    /// A copy to an array that is null.
    NoArray,
    /// A launch with attributes of which none makes it cooperative, from HIP 6.5 on; before, of no blocks.
    NotCooperative,
    /// A batch of boxes that are read in no known order, from HIP 7.1 on; before, a box that leaves its memory.
    NoOrder,
    /// Managed memory moved to a device that does not exist.
    MoveNowhere,
    /// Memory moved that is a device's.
    MoveFixed,
}

/// All of them.
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
    /// The thread's functions have these names from now on; at first, their own.
    Name(Names),
    /// Tells whoever awaits it, once.
    Signal(Token),
    /// Waits until it has been signalled.
    Await(Token),
    /// Makes a stream of the thread's device.
    MakeStream(u8, StreamKind),
    /// `hipStreamDestroy`
    DestroyStream(u8),
    /// Makes an event of the thread's device.
    MakeEvent(Event, EventKind),
    /// `hipEventDestroy`
    DestroyEvent(Event),
    /// Allocates, except pooled memory, and fills by the host or synchronously.
    Allocate {
        /// Its number.
        buffer: Buffer,
        /// Where.
        memory: Memory,
        /// How many cells; 0 makes a large buffer with one.
        cells: u8,
    },
    /// `hipMallocAsync`; the contents are undefined until written.
    AllocateAsync {
        /// Its number.
        buffer: Buffer,
        /// In whose turn.
        stream: Stream,
        /// How many cells.
        cells: u8,
        /// Whether by `hipMallocFromPoolAsync`, from a pool that is not the device's.
        #[serde(default)]
        own_pool: bool,
    },
    /// `hipFree` and its relatives.
    Free(Buffer),
    /// `hipFreeAsync` of pooled memory.
    FreeAsync(Buffer, Stream),
    /// Work on a stream.
    Submit(Stream, Work),
    /// A kernel with an event before and one behind it: `hipExtLaunchKernel`, `hipExtModuleLaunchKernel`,
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
    /// The host looks at a cell.
    HostRead(Cell),
    /// Holds a stream up.
    Hold(Gate, Stream, GateKind),
    /// Lets it go on.
    Release(Gate),
    /// `hipStreamBeginCapture`
    BeginCapture(u8, CaptureMode),
    /// `hipStreamEndCapture`, and makes the graph executable.
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
    /// A kernel that goes where no memory is, after which the device is of no more use: see `order/fault.rs`.
    Fault(Stream),
    /// A call that fails; the stream is used by those that name one.
    Wrong(Mistake, Stream),
}

/// A step and who takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step(pub Thread, pub Op);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// In an order in which they can run.
    pub steps: Vec<Step>,
}

/// A text that is not a program.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is no step of a program")]
pub struct ParseError {
    line: usize,
    source: ron::error::SpannedError,
}

impl Program {
    /// Whether nothing works any more after it, in the whole process.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.steps.iter().any(|Step(_, op)| matches!(op, Op::Fault(_)))
    }

    /// Reads what `Display` wrote; empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    ///
    /// Names the first line that is no step.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let steps = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let steps =
            steps.map(|(line, text)| ron::from_str(text).map_err(|source| ParseError { line, source }));
        Ok(Self { steps: steps.collect::<Result<_, _>>()? })
    }

    /// Number of threads that have steps, counting from 0.
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
    fn a_program_is_read_back_from_its_text() {
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
    fn a_line_that_is_no_step_is_named() {
        let error = Program::parse("(0,SyncDevice)\n(0,Sync)\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2 is no step of a program");
    }
}
