//! What programs may use: a runtime may have less than HIP.

use crate::program::{Copy, DEVICES, Fill, HostCall, Launch, Memory, Op, Stream, StreamKind, Work, Write};

/// A choice of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repertoire {
    /// All steps.
    #[default]
    All,
    /// What AMD's ROCm 5.2 does on one device of the virtual machine's kind, and does as programs assume. It has neither functions
    /// of later releases nor handles of the null stream. Arrays want image instructions, and pools and managed memory want a
    /// newer device. The README has what else is left out.
    Rocm52,
    /// The same of ROCm 6.4. It has handles of the null stream and functions of threads' streams, but does not export two ways to launch.
    /// It takes no stream away safely beside other threads: the README says what was seen.
    Rocm64,
    /// The same of ROCm 7.2. It reads pageable memory of copies by rows and boxes after they have returned.
    Rocm72,
}

impl Repertoire {
    /// The repertoire of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "rocm-5.2" => Some(Self::Rocm52),
            "rocm-6.4" => Some(Self::Rocm64),
            "rocm-7.2" => Some(Self::Rocm72),
            _ => None,
        }
    }

    /// Number of devices.
    #[must_use]
    pub fn devices(self) -> usize {
        match self {
            Self::All => DEVICES,
            Self::Rocm52 | Self::Rocm64 | Self::Rocm72 => 1,
        }
    }

    /// Whether programs may have this step.
    #[must_use]
    pub fn has(self, op: &Op) -> bool {
        match self {
            Self::All => true,
            Self::Rocm52 => is_of_rocm_5_2(op),
            Self::Rocm64 | Self::Rocm72 => is_of_rocm_6_4(op),
        }
    }

    /// Whether streams may end while other threads make calls. If not, programs of several threads destroy none, and their threads end
    /// together: with a thread ends its own stream.
    #[must_use]
    pub fn ends_streams_beside_threads(self) -> bool {
        !matches!(self, Self::Rocm64 | Self::Rocm72)
    }

    /// Whether they may copy so from memory of this kind.
    #[must_use]
    pub fn copies(self, by: Copy, from: Memory) -> bool {
        self != Self::Rocm72 || from != Memory::Pageable || !matches!(by, Copy::Rows | Copy::Box)
    }
}

fn is_of_rocm_5_2(op: &Op) -> bool {
    match op {
        Op::SetDevice(device) => device.0 == 0,
        Op::MakeStream(_, kind) => !matches!(kind, StreamKind::Priority(_)),
        Op::Allocate { memory, cells, .. } => {
            *cells > 0 && matches!(memory, Memory::Device | Memory::Pinned | Memory::Pageable)
        }
        Op::Submit(stream, work) | Op::Timed(stream, work, ..) => has_stream(*stream) && has_work(work),
        Op::Record(_, stream) | Op::Wait(stream, _) | Op::SyncStream(stream) => has_stream(*stream),
        Op::Signal(_)
        | Op::Await(_)
        | Op::DestroyStream(_)
        | Op::MakeEvent(..)
        | Op::DestroyEvent(_)
        | Op::Free(_)
        | Op::SyncEvent(_)
        | Op::SyncDevice
        | Op::QueryEvent(_)
        | Op::Elapsed(..)
        | Op::HostWrite(..)
        | Op::HostRead(_)
        | Op::LastError
        | Op::PeekError => true,
        Op::Name(_)
        | Op::AllocateAsync { .. }
        | Op::FreeAsync(..)
        | Op::BeginCapture(..)
        | Op::EndCapture(..)
        | Op::BuildGraph(..)
        | Op::LaunchGraph(..)
        | Op::UploadGraph(..)
        | Op::DestroyGraph(_)
        | Op::Hold(..)
        | Op::QueryStream(_)
        | Op::Release(_)
        | Op::Fault(_)
        | Op::Wrong(..) => false,
    }
}

fn is_of_rocm_6_4(op: &Op) -> bool {
    match op {
        // `hipEventRecord` and launches with events do not know these handles: the program ends by a segmentation fault.
        // `hipStreamSynchronize` of this handle waits for the null stream alone, and not for blocking streams.
        Op::Record(_, Stream::Legacy)
        | Op::Timed(Stream::Legacy | Stream::PerThread, ..)
        | Op::SyncStream(Stream::Legacy) => false,
        Op::Submit(_, work) | Op::Timed(_, work, ..) => is_work_of_rocm_6_4(work),
        Op::Record(..) | Op::Wait(..) | Op::SyncStream(_) | Op::Name(_) => true,
        other => is_of_rocm_5_2(other),
    }
}

fn is_work_of_rocm_6_4(work: &Work) -> bool {
    match work {
        Work::Kernel { by: Launch::Config | Launch::DriverConfig, .. } => false,
        Work::Kernel { by: Launch::Spt, .. }
        | Work::Copy { by: Copy::Spt, .. }
        | Work::Host { by: HostCall::Function, .. } => true,
        other => has_work(other),
    }
}

fn has_stream(stream: Stream) -> bool {
    matches!(stream, Stream::Null | Stream::Made(_))
}

fn has_work(work: &Work) -> bool {
    match work {
        Work::Kernel { by, .. } => matches!(
            by,
            Launch::Chevrons
                | Launch::Plain
                | Launch::Ext
                | Launch::ModuleList
                | Launch::ModuleBuffer
                | Launch::Config
                | Launch::DriverConfig
                | Launch::SymbolFunction
                | Launch::LibraryKernel
        ),
        Work::Copy { by: Copy::Box, to, from } => to.1 != 1 && from.1 != 1,
        Work::Copy { by, .. } => matches!(
            by,
            Copy::Async | Copy::Driver | Copy::Rows | Copy::Symbol | Copy::WithStream | Copy::Sync
        ),
        Work::Fill { by, .. } => *by != Fill::DriverRows,
        Work::Host { by, .. } => *by == HostCall::Callback,
        Work::WriteValue { by, .. } => matches!(by, Write::Value | Write::Wide),
        Work::Move { .. } => false,
    }
}
