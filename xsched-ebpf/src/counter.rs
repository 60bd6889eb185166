//! Everything that is lost, by cause, and everything that was left out on purpose, by filter. A counter each for every
//! processor, read by user space.

use zerocopy::{FromBytes, Immutable, KnownLayout};

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
    /// Processes that used a runtime before there were probes in it: their first calls may be missing. Counted by the
    /// programs where nothing can be reported, and by user space.
    LateProbes = 5,
    /// Child processes not followed: the list of targets was full.
    TargetsFull = 6,
    /// Calls not recorded: made in a pid namespace other than the tracer's own, where that is not the machine's.
    OtherNamespace = 7,
}

impl Counter {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::RingFull,
        Self::PendingFull,
        Self::ArgumentsUnreadable,
        Self::TextUnreadable,
        Self::TextCut,
        Self::LateProbes,
        Self::TargetsFull,
        Self::OtherNamespace,
    ];

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
        }
    }

    /// Whether each count stands for one call that is missing from the trace.
    pub const fn loses_call(self) -> bool {
        matches!(self, Self::RingFull | Self::PendingFull)
    }
}

/// Why the programs have left a call out, as they were told to. What user space leaves out it counts itself.
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
/// Shared with the programs that may preempt each other on that processor, so it is changed by atomic additions only;
/// the alignment keeps processors out of each other's cache lines.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Counters {
    /// Losses, by [`Counter`].
    pub losses: [u64; Counter::ALL.len()],
    /// Calls left out, by [`Filter`].
    pub left_out: [u64; Filter::ALL.len()],
}
