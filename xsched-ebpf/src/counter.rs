//! Everything that is lost, by cause, and everything that is left out on purpose, by filter. Each processor has its own counters,
//! which user space reads.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::chain::ChainEnd;

/// A cause of loss or of an incomplete record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// Calls not recorded: the ring buffer was full.
    RingFull = 0,
    /// Calls not recorded: too many calls were in progress at once.
    PendingFull = 1,
    /// Calls whose stack arguments or struct argument could not be read; those arguments read zero.
    ArgumentsUnreadable = 2,
    /// Names that could not be read.
    TextUnreadable = 3,
    /// Names longer than [`TEXT_LEN_MAX`](crate::TEXT_LEN_MAX), recorded cut.
    TextCut = 4,
    /// Processes that used a runtime before it had probes: their first calls may be missing. Counted by the programs where they
    /// cannot report it, and by user space.
    LateProbes = 5,
    /// Child processes not followed: the list of targets was full.
    TargetsFull = 6,
    /// Calls not recorded: made in a pid namespace other than the tracer's own, where that is not the machine's.
    OtherNamespace = 7,
    /// Walks not made: too many others were in progress.
    WalksBusy = 8,
    /// Chains not shipped: the ring buffer was full. The next call with the same chain ships it.
    StackRingFull = 9,
    /// Snapshots of stacks not taken: their ring buffer was full.
    SnapshotRingFull = 10,
    /// Processes or unwind tables that do not fit in the programs' maps: walks through them are made in user space. Counted there,
    /// as all that follow.
    ChainMapsFull = 11,
    /// Calls whose chain ends in a file without unwind information.
    ChainNoTable = 12,
    /// Calls whose chain ends at an address that is in no known code.
    ChainUnknownCode = 13,
    /// Calls whose chain ends in generated code.
    ChainGenerated = 14,
    /// Calls whose chain ends in code without unwind information, in a file that has some.
    ChainNoRule = 15,
    /// Calls whose chain ends at a rule that tables cannot express.
    ChainUnsupported = 16,
    /// Calls whose chain ends at a part of the stack that could not be read, or was invalid.
    ChainUnreadable = 17,
    /// Calls whose chain was lost, for a reason that is counted as well.
    ChainLost = 18,
    /// Ioctls not recorded: the ring buffer was full.
    IoctlRingFull = 19,
    /// Ioctls not recorded: too many were in progress at once.
    IoctlPendingFull = 20,
    /// Ioctls recorded without their struct, which could not be read.
    IoctlArgumentsUnreadable = 21,
    /// Ioctls not recorded: it could not be determined whether they were AMD's.
    IoctlDeviceUnknown = 22,
    /// Processes that opened the driver's devices before it was traced: their first ioctls may be missing.
    IoctlLate = 23,
    /// Launches recorded by the address of their kernel. Counted by user space.
    KernelUnnamed = 24,
    /// Scheduling events not recorded: a process's ring was full, or invalid. Counted by user space.
    SchedulingLost = 25,
    /// Invalid scheduling events. Counted by user space.
    SchedulingSenseless = 26,
    /// Commands whose end was not seen: their process ended, or the recording did, or they were not followed any more. Counted by
    /// user space.
    SchedulingUnseen = 27,
    /// Launches and copies made before their process wrote events about its commands. Counted by user space.
    SchedulingEarly = 28,
    /// Executions written without an arrow from the call that started them: it was not seen. Counted by user space.
    SchedulingUncalled = 29,
}

impl Counter {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 30] = [
        Self::RingFull,
        Self::PendingFull,
        Self::ArgumentsUnreadable,
        Self::TextUnreadable,
        Self::TextCut,
        Self::LateProbes,
        Self::TargetsFull,
        Self::OtherNamespace,
        Self::WalksBusy,
        Self::StackRingFull,
        Self::SnapshotRingFull,
        Self::ChainMapsFull,
        Self::ChainNoTable,
        Self::ChainUnknownCode,
        Self::ChainGenerated,
        Self::ChainNoRule,
        Self::ChainUnsupported,
        Self::ChainUnreadable,
        Self::ChainLost,
        Self::IoctlRingFull,
        Self::IoctlPendingFull,
        Self::IoctlArgumentsUnreadable,
        Self::IoctlDeviceUnknown,
        Self::IoctlLate,
        Self::KernelUnnamed,
        Self::SchedulingLost,
        Self::SchedulingSenseless,
        Self::SchedulingUnseen,
        Self::SchedulingEarly,
        Self::SchedulingUncalled,
    ];

    /// The counter for a call whose chain ends so; none for a chain that is as long as was asked for.
    pub const fn of_chain(end: ChainEnd) -> Option<Self> {
        match end {
            ChainEnd::Complete | ChainEnd::Depth => None,
            ChainEnd::NoTable => Some(Self::ChainNoTable),
            ChainEnd::UnknownCode => Some(Self::ChainUnknownCode),
            ChainEnd::Generated => Some(Self::ChainGenerated),
            ChainEnd::NoRule => Some(Self::ChainNoRule),
            ChainEnd::Unsupported => Some(Self::ChainUnsupported),
            ChainEnd::Unreadable => Some(Self::ChainUnreadable),
            ChainEnd::Lost => Some(Self::ChainLost),
        }
    }

    /// Name in traces and in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingFull => "ring_full",
            Self::PendingFull => "pending_full",
            Self::ArgumentsUnreadable => "arguments_unreadable",
            Self::TextUnreadable => "text_unreadable",
            Self::TextCut => "text_cut",
            Self::LateProbes => "late_probes",
            Self::TargetsFull => "targets_full",
            Self::OtherNamespace => "other_namespace",
            Self::WalksBusy => "walks_busy",
            Self::StackRingFull => "stack_ring_full",
            Self::SnapshotRingFull => "snapshot_ring_full",
            Self::ChainMapsFull => "chain_maps_full",
            Self::ChainNoTable => "chain_no_table",
            Self::ChainUnknownCode => "chain_unknown_code",
            Self::ChainGenerated => "chain_generated",
            Self::ChainNoRule => "chain_no_rule",
            Self::ChainUnsupported => "chain_unsupported",
            Self::ChainUnreadable => "chain_unreadable",
            Self::ChainLost => "chain_lost",
            Self::IoctlRingFull => "ioctl_ring_full",
            Self::IoctlPendingFull => "ioctl_pending_full",
            Self::IoctlArgumentsUnreadable => "ioctl_arguments_unreadable",
            Self::IoctlDeviceUnknown => "ioctl_device_unknown",
            Self::IoctlLate => "ioctl_late",
            Self::KernelUnnamed => "kernel_unnamed",
            Self::SchedulingLost => "scheduling_lost",
            Self::SchedulingSenseless => "scheduling_senseless",
            Self::SchedulingUnseen => "scheduling_unseen",
            Self::SchedulingEarly => "scheduling_early",
            Self::SchedulingUncalled => "scheduling_uncalled",
        }
    }

    /// What happened, for a person: reads after a count.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::RingFull => "calls lost: the ring buffer was full",
            Self::PendingFull => "calls lost: too many calls were in progress at once",
            Self::ArgumentsUnreadable => {
                "calls recorded without their stack arguments: the memory was unreadable"
            }
            Self::TextUnreadable => "names lost: the memory was unreadable",
            Self::TextCut => "names cut at 4096 bytes",
            Self::LateProbes => {
                "processes loaded a runtime before it was probed: their first calls may be missing"
            }
            Self::TargetsFull => "child processes not followed: the list of targets was full",
            Self::OtherNamespace => "calls not recorded: made in other pid namespaces, such as the host's",
            Self::WalksBusy => "calls without a chain: too many walks were in progress at once",
            Self::StackRingFull => "call chains lost: the ring buffer was full",
            Self::SnapshotRingFull => {
                "calls without a chain: a copy of their stack did not fit in the ring buffer"
            }
            Self::ChainMapsFull => {
                "processes or unwind tables did not fit in the kernel's maps: their stacks are copied"
            }
            Self::ChainNoTable => "chains end in a file without unwind information",
            Self::ChainUnknownCode => "chains end at an address in no known code",
            Self::ChainGenerated => "chains end in generated code",
            Self::ChainNoRule => "chains end in code without unwind information",
            Self::ChainUnsupported => "chains end at unwind information that cannot be used",
            Self::ChainUnreadable => "chains end at an unreadable part of the stack",
            Self::ChainLost => "calls recorded with their immediate caller only",
            Self::IoctlRingFull => "driver calls lost: the ring buffer was full",
            Self::IoctlPendingFull => "driver calls lost: too many were in progress at once",
            Self::IoctlArgumentsUnreadable => {
                "driver calls recorded without their arguments: the memory was unreadable"
            }
            Self::IoctlDeviceUnknown => {
                "ioctls that may have been driver calls not recorded: their descriptors were closed"
            }
            Self::IoctlLate => {
                "processes opened the driver before it was traced: their first driver calls may be missing"
            }
            Self::KernelUnnamed => {
                "launches show addresses for kernels: they were looked up before recording began, or have no symbols"
            }
            Self::SchedulingLost => "scheduling events lost: a ring was full, or invalid",
            Self::SchedulingSenseless => "scheduling events were invalid",
            Self::SchedulingUnseen => "commands whose end was not seen have no execution",
            Self::SchedulingEarly => {
                "launches and copies have no execution: their process did not record its commands yet"
            }
            Self::SchedulingUncalled => "executions without the call that started them: it was not seen",
        }
    }

    /// Whether each count stands for one call that is missing from the trace.
    pub const fn loses_call(self) -> bool {
        matches!(self, Self::RingFull | Self::PendingFull | Self::IoctlRingFull | Self::IoctlPendingFull)
    }
}

/// The programs' reason for leaving a call out. User space counts itself what it leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Filter {
    /// It was shorter than [`Config::min_duration_ns`](crate::Config::min_duration_ns).
    Short = 0,
    /// It was a launch that the sample does not include.
    Unsampled = 1,
}

impl Filter {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Short, Self::Unsampled];
}

/// The counters of one processor: an element of the map `COUNTERS`, whose index is the processor's number.
///
/// Programs that preempt each other on that processor share it, so it is changed by atomic additions only. The alignment keeps the
/// counters of different processors in different cache lines.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Counters {
    /// Losses, by [`Counter`].
    pub losses: [u64; Counter::ALL.len()],
    /// Calls left out, by [`Filter`].
    pub left_out: [u64; Filter::ALL.len()],
}
