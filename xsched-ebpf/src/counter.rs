//! Everything that is lost, by cause, and everything that is left out on purpose, by filter. Each processor has its own counters,
//! which user space reads.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::chain::ChainEnd;

/// Defines the counters from a list. The description is for people, and reads after a count.
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident $name:literal $description:literal,)*) => {
        /// A cause of loss or of an incomplete record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Counter {
            $(
                #[doc = $description]
                #[doc = ""]
                $(#[$doc])*
                $counter,
            )*
        }

        impl Counter {
            /// All of them, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$counter),*];

            /// Name in traces and in machine-readable output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$counter => $name,)*
                }
            }

            /// What happened, for a person: reads after a count.
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Self::$counter => $description,)*
                }
            }
        }
    };
}

counters! {
    RingFull "ring_full" "calls lost: the ring buffer was full",
    PendingFull "pending_full" "calls lost: too many calls were in progress at once",
    /// Those arguments read zero.
    ArgumentsUnreadable "arguments_unreadable" "calls recorded without their stack arguments: the memory was unreadable",
    TextUnreadable "text_unreadable" "names lost: the memory was unreadable",
    /// See [`TEXT_LEN_MAX`](crate::TEXT_LEN_MAX).
    TextCut "text_cut" "names cut at 4096 bytes",
    /// Counted by the programs where they cannot report it, and by user space.
    LateProbes "late_probes" "processes loaded a runtime before it was probed: their first calls may be missing",
    TargetsFull "targets_full" "child processes not followed: the list of targets was full",
    /// Only where the tracer's own pid namespace is not the machine's.
    OtherNamespace "other_namespace" "calls not recorded: made in other pid namespaces, such as the host's",
    WalksBusy "walks_busy" "calls without a chain: too many walks were in progress at once",
    /// The next call with the same chain ships it.
    StackRingFull "stack_ring_full" "call chains lost: the ring buffer was full",
    SnapshotRingFull "snapshot_ring_full" "calls without a chain: a copy of their stack did not fit in the ring buffer",
    /// Walks through them are made in user space. Counted there, as all that follow.
    ChainMapsFull "chain_maps_full" "processes or unwind tables did not fit in the kernel's maps: their stacks are copied",
    ChainNoTable "chain_no_table" "chains end in a file without unwind information",
    /// It was being built.
    ChainNotReady "chain_not_ready" "chains end in a file whose unwind table was not ready",
    ChainGone "chain_gone" "chains end in a file that was gone before it could be read: its process was short",
    ChainUnknownCode "chain_unknown_code" "chains end at an address in no known code",
    ChainGenerated "chain_generated" "chains end in generated code",
    /// The file has some unwind information.
    ChainNoRule "chain_no_rule" "chains end in code without unwind information",
    ChainUnsupported "chain_unsupported" "chains end at unwind information that cannot be used",
    /// Or at a part that was invalid.
    ChainUnreadable "chain_unreadable" "chains end at an unreadable part of the stack",
    /// The reason is counted as well.
    ChainLost "chain_lost" "calls recorded with their immediate caller only",
    IoctlRingFull "ioctl_ring_full" "driver calls lost: the ring buffer was full",
    IoctlPendingFull "ioctl_pending_full" "driver calls lost: too many were in progress at once",
    IoctlArgumentsUnreadable "ioctl_arguments_unreadable" "driver calls recorded without their arguments: the memory was unreadable",
    /// It could not be determined whether they were AMD's.
    IoctlDeviceUnknown "ioctl_device_unknown" "ioctls that may have been driver calls not recorded: their descriptors were closed",
    IoctlLate "ioctl_late" "processes opened the driver before it was traced: their first driver calls may be missing",
    /// Counted by user space.
    KernelUnnamed "kernel_unnamed" "launches show addresses for kernels: they were looked up before recording began, or have no symbols",
    /// Of processes with the shim. Counted by user space.
    OwnCallsLost "own_calls_lost" "calls lost that processes recorded themselves: the memory for them was full, or invalid",
    /// The ring is a process's. Counted by user space.
    SchedulingLost "scheduling_lost" "scheduling events lost: a ring was full, or invalid",
    /// Counted by user space.
    SchedulingSenseless "scheduling_senseless" "scheduling events were invalid",
    /// Their process ended, or the recording did, or they were not followed any more. Counted by user space.
    SchedulingUnseen "scheduling_unseen" "commands whose end was not seen have no execution",
    /// Counted by user space.
    SchedulingEarly "scheduling_early" "launches and copies have no execution: their process did not record its commands yet",
    /// Executions without an arrow. Counted by user space.
    SchedulingUncalled "scheduling_uncalled" "executions without the call that started them: it was not seen",
}

impl Counter {
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
            ChainEnd::Gone => Some(Self::ChainGone),
            ChainEnd::NotReady => Some(Self::ChainNotReady),
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
