//! The id of a connection.

/// Identifies a connection of a process; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(super) u32);

impl ClientId {
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The id as a number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}
