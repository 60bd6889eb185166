//! Numbers of calls that filters and limits have left out, by filter or limit.

/// A filter or a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `--min-duration`.
    Short = 0,
    /// `--sample`.
    Unsampled = 1,
    /// `--library`.
    Library = 2,
    /// `--kernel`.
    Kernel = 3,
    /// `--api`, `--min-duration` or `--sample` may have left out the call of an execution.
    Uncalled = 4,
    /// `--max-size`.
    Oversize = 5,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Short, Self::Unsampled, Self::Library, Self::Kernel, Self::Uncalled, Self::Oversize];

    /// Name of its counter in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "left_out.min_duration",
            Self::Unsampled => "left_out.sample",
            Self::Library => "left_out.library",
            Self::Kernel => "left_out.kernel",
            Self::Uncalled => "left_out.call",
            Self::Oversize => "left_out.max_size",
        }
    }

    /// Text after a count.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Short => "calls shorter than `--min-duration`",
            Self::Unsampled => "launches not drawn by `--sample`",
            Self::Library => "calls of other libraries than `--library`",
            Self::Kernel => "calls with other kernels than `--kernel`, or none",
            Self::Uncalled => "calls of executions, which have no names without them",
            Self::Oversize => "calls, those to the driver included, that did not fit into `--max-size`",
        }
    }
}

/// Counts, by filter or limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut([u64; Reason::ALL.len()]);

impl LeftOut {
    /// Counts calls.
    pub fn add(&mut self, reason: Reason, count: u64) {
        self.0[reason as usize] += count;
    }

    /// Each filter or limit with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.0)
    }
}
