//! Cells, and the accesses to them.

use super::clock::{Clock, Line};
use super::{Calls, Flaw};
use crate::program::{Cell, Memory};

/// A step's access to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) cell: Cell,
    pub(super) is_write: bool,
    /// A write that replaces the whole contents.
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

    /// Records an access by a line at a time; two conflicting accesses must be ordered.
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
    /// The call that created it, which every user of the buffer must know.
    pub(super) made: Calls,
    /// Calls that only name it, which must precede its end.
    pub(super) named: Clock,
    pub(super) cells: Vec<History>,
}
