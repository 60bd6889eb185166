//! Cells, and who has touched them.

use super::clock::{Clock, Line};
use super::{Calls, Flaw};
use crate::program::{Cell, Memory};

/// What a step does to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) cell: Cell,
    pub(super) is_write: bool,
    /// A write that leaves nothing of what was there.
    pub(super) is_whole: bool,
}

impl Access {
    pub(super) fn read(cell: Cell) -> Self {
        Self { cell, is_write: false, is_whole: false }
    }

    pub(super) fn write(cell: Cell) -> Self {
        Self { cell, is_write: true, is_whole: true }
    }

    pub(super) fn update(cell: Cell) -> Self {
        Self { cell, is_write: true, is_whole: false }
    }
}

/// The latest accesses by each line.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    reads: Clock,
    writes: Clock,
    is_defined: bool,
}

impl History {
    pub(super) fn new(line: Line, at: &Clock, is_defined: bool) -> Self {
        let mut history = Self { is_defined, ..Self::default() };
        history.writes.note(line, at);
        history
    }

    /// Notes an access by a line at a time; two that conflict must be ordered.
    pub(super) fn access(&mut self, access: Access, line: Line, at: &Clock) -> Result<(), Flaw> {
        let race = |line| Flaw::Race(line);
        if !access.is_whole && !self.is_defined {
            return Err(Flaw::Undefined);
        }
        at.behind(&self.writes).map_or(Ok(()), |line| Err(race(line)))?;
        if access.is_write {
            at.behind(&self.reads).map_or(Ok(()), |line| Err(race(line)))?;
            self.writes.note(line, at);
            self.is_defined = true;
        } else {
            self.reads.note(line, at);
        }
        Ok(())
    }

    pub(super) fn is_defined(&self) -> bool {
        self.is_defined
    }
}

/// A buffer.
#[derive(Clone, Debug)]
pub(super) struct BufferState {
    pub(super) memory: Memory,
    pub(super) device: usize,
    pub(super) is_large: bool,
    /// The call that made it, which has to be known to whoever names it.
    pub(super) made: Calls,
    /// Calls that only name it, which come before it goes.
    pub(super) named: Clock,
    pub(super) cells: Vec<History>,
}
