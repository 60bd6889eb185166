//! Vector clocks over threads and streams.

use crate::program::{DEVICES, STREAMS_MAX, THREADS};

/// A sequential line of execution: a thread, or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(pub(super) usize);

const NULL_FIRST: usize = THREADS + STREAMS_MAX;
const PER_THREAD_FIRST: usize = NULL_FIRST + DEVICES;
/// Number of lines.
pub(super) const LINES: usize = PER_THREAD_FIRST + THREADS * DEVICES;

/// The owner of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A thread.
    Thread(u8),
    /// A stream that the program has created.
    Made(u8),
    /// The null stream of this device.
    Null(u8),
    /// A thread's own stream.
    PerThread(u8),
}

impl Line {
    /// The line's owner.
    #[must_use]
    pub fn owner(self) -> Owner {
        match self.0 {
            line if line < THREADS => Owner::Thread(line as u8),
            line if line < NULL_FIRST => Owner::Made((line - THREADS) as u8),
            line if line < PER_THREAD_FIRST => Owner::Null((line - NULL_FIRST) as u8),
            line => Owner::PerThread(((line - PER_THREAD_FIRST) / DEVICES) as u8),
        }
    }

    pub(super) fn thread(thread: usize) -> Self {
        Self(thread)
    }

    pub(super) fn made(stream: usize) -> Self {
        Self(THREADS + stream)
    }

    pub(super) fn null(device: usize) -> Self {
        Self(NULL_FIRST + device)
    }

    pub(super) fn per_thread(thread: usize, device: usize) -> Self {
        Self(PER_THREAD_FIRST + thread * DEVICES + device)
    }
}

/// The latest step of each line that is known to have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock([u32; LINES]);

impl Clock {
    /// Takes the next step of a line.
    pub(super) fn tick(&mut self, line: Line) {
        self.0[line.0] += 1;
    }

    /// Adds the knowledge of another clock.
    pub(super) fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Adds another clock's latest step of one line.
    pub(super) fn note(&mut self, line: Line, at: &Self) {
        self.0[line.0] = self.0[line.0].max(at.0[line.0]);
    }

    /// The first line of which the other clock knows more.
    pub(super) fn behind(&self, other: &Self) -> Option<Line> {
        (0..LINES).find(|&line| self.0[line] < other.0[line]).map(Line)
    }

    /// Whether this clock knows the other's latest step of that line.
    pub(super) fn knows(&self, line: Line, other: &Self) -> bool {
        self.0[line.0] >= other.0[line.0]
    }
}
