//! Work on streams: the memory it accesses, and what the host waits for.

use super::clock::Line;
use super::memory::{Access, BufferState};
use super::{Flaw, Order, Pending};
use crate::program::{Cell, Copy, Event, Fill, Kernel, Launch, Memory, Stream, Work};

/// How far the work is when a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Return {
    /// The call does not wait.
    AtOnce,
    /// It is left open whether the call waits.
    Open,
    /// The work is done.
    Done,
}

impl Order {
    /// Work on a stream, captured or not.
    pub(super) fn submit(&mut self, thread: usize, stream: Stream, work: &Work) -> Result<(), Flaw> {
        let line = self.line(thread, stream)?;
        if self.capturing_thread(line).is_some() {
            self.stream(thread, stream)?;
            return self.captured_work(thread, line, work);
        }
        let is_on_null =
            matches!(work, Work::Copy { by: Copy::Sync, .. } | Work::Fill { by: Fill::Sync, .. });
        let is_of_thread =
            matches!(work, Work::Copy { by: Copy::Spt, .. } | Work::Kernel { by: Launch::Spt, .. });
        if is_on_null && stream != Stream::Null || is_of_thread && stream == Stream::Null {
            return Err(Flaw::Unknown);
        }
        let accesses = self.accesses(thread, work)?;
        let returns = self.returns(work)?;
        let before = self.threads[thread].clock;
        // The host copies between pageable memory itself once the stream is done, so that is no command. It
        // is left open whether a move is a command.
        let is_pageable =
            |access: &Access| self.buffer(access.cell.0).is_ok_and(|state| state.memory == Memory::Pageable);
        let is_by_host = matches!(work, Work::Copy { .. }) && accesses.iter().all(is_pageable);
        let pending = if is_by_host || matches!(work, Work::Move { .. }) {
            self.position(thread, stream)?
        } else {
            self.enqueue(thread, stream)?
        };
        if returns != Return::AtOnce {
            self.check_may_wait(thread, self.stream_of(pending.line).maybe)?;
        }
        for access in accesses {
            // Pageable memory is read before the call returns: either when the stream reaches the copy, or
            // during the call.
            let is_by_host = !access.is_write
                && matches!(work, Work::Copy { .. })
                && self.buffer(access.cell.0)?.memory == Memory::Pageable;
            if is_by_host {
                self.access(access, Line::thread(thread), &before)?;
            } else {
                self.access(access, pending.line, &pending.clock)?;
            }
        }
        self.note_return(thread, returns, &pending);
        Ok(())
    }

    /// A kernel between two events. At the first event, only the work before the kernel is relied upon.
    pub(super) fn timed(
        &mut self,
        thread: usize,
        stream: Stream,
        work: &Work,
        (start, stop): (Option<Event>, Option<Event>),
    ) -> Result<(), Flaw> {
        if !matches!(work, Work::Kernel { .. }) || start.is_some() && start == stop {
            return Err(Flaw::Unknown);
        }
        if let Some(start) = start {
            self.record(thread, start, stream)?;
        }
        self.submit(thread, stream, work)?;
        stop.map_or(Ok(()), |stop| self.record(thread, stop, stream))
    }

    fn note_return(&mut self, thread: usize, returns: Return, pending: &Pending) {
        if returns == Return::Done {
            self.threads[thread].clock.join(&pending.clock);
        }
    }

    /// Whether a call with this work returns at once.
    pub(super) fn is_asynchronous(&self, work: &Work) -> bool {
        self.returns(work) == Ok(Return::AtOnce)
    }

    fn returns(&self, work: &Work) -> Result<Return, Flaw> {
        Ok(match work {
            Work::Copy { by, to, from } => {
                let (to, from) = (self.buffer(to.0)?, self.buffer(from.0)?);
                let is_within_device = is_of_device(to.memory) && is_of_device(from.memory);
                let is_synchronous = matches!(by, Copy::Sync | Copy::WithStream);
                if is_within_device {
                    if is_synchronous { Return::Open } else { Return::AtOnce }
                } else if is_synchronous || to.memory == Memory::Pageable {
                    Return::Done
                } else if from.memory == Memory::Pageable && (from.is_large || is_of_rows(*by)) {
                    Return::Open
                } else {
                    Return::AtOnce
                }
            }
            Work::Fill { by: Fill::Sync, .. } => Return::Open,
            _ => Return::AtOnce,
        })
    }

    /// The memory that the work accesses, if it is of the right kinds.
    pub(super) fn accesses(&self, thread: usize, work: &Work) -> Result<Vec<Access>, Flaw> {
        let device = self.threads[thread].device;
        let is_near = |state: &BufferState| {
            matches!(state.memory, Memory::Pinned | Memory::Managed | Memory::Pageable)
                || state.device == device
        };
        let named = |cell: Cell| {
            let state = self.buffer(cell.0)?;
            state.made.check(&self.threads[thread].clock).map(|()| state)
        };
        let of_device = |cell: Cell| {
            let state = named(cell)?;
            if state.memory.is_device() && is_near(state) { Ok(state) } else { Err(Flaw::OtherDevice) }
        };
        let of_host = |cell: Cell| {
            let state = named(cell)?;
            if state.memory.is_host() { Ok(()) } else { Err(Flaw::Unknown) }
        };
        Ok(match *work {
            Work::Kernel { kernel: Kernel::Nothing, .. } => Vec::new(),
            Work::Kernel { to, from, .. } => {
                of_device(to)?;
                of_device(from)?;
                vec![Access::read(from), Access::update(to)]
            }
            Work::Host { to, from, .. } => {
                of_host(to)?;
                of_host(from)?;
                vec![Access::read(from), Access::update(to)]
            }
            Work::Fill { to, .. } => {
                let state = of_device(to)?;
                // The host fills host memory, at an unspecified time.
                if state.memory == Memory::Pinned {
                    return Err(Flaw::Unknown);
                }
                vec![Access::write(to)]
            }
            Work::WriteValue { to, .. } => {
                of_device(to)?;
                vec![Access::update(to)]
            }
            Work::Move { what, .. } => {
                if named(what)?.memory != Memory::Managed {
                    return Err(Flaw::Unknown);
                }
                vec![Access::read(what)]
            }
            Work::Copy { by, to, from } => {
                let (to_state, from_state) = (named(to)?, named(from)?);
                let is_far = !is_near(to_state) || !is_near(from_state);
                let both_pageable =
                    to_state.memory == Memory::Pageable && from_state.memory == Memory::Pageable;
                let both_of_host = !is_of_device(to_state.memory) && !is_of_device(from_state.memory);
                let both_of_device = is_of_device(to_state.memory) && is_of_device(from_state.memory);
                let arrays =
                    [to_state, from_state].iter().filter(|state| state.memory == Memory::Array).count();
                let takes_them = match by {
                    Copy::Peer | Copy::PeerBox => both_of_device && arrays == 0,
                    Copy::Box | Copy::BatchBox | Copy::DriverBox | Copy::DriverRows => !both_of_host,
                    Copy::DriverArray => {
                        let is_host =
                            |state: &BufferState| matches!(state.memory, Memory::Pinned | Memory::Pageable);
                        arrays == 1 && (is_host(to_state) || is_host(from_state))
                    }
                    Copy::Rows => arrays < 2,
                    Copy::Driver => !both_of_host && arrays == 0,
                    _ => arrays == 0,
                };
                let is_possible = to != from
                    && to_state.is_large == from_state.is_large
                    && (!is_far || matches!(by, Copy::Async | Copy::Peer | Copy::PeerBox))
                    && (!both_pageable || by == Copy::Async)
                    && (!to_state.is_large || by != Copy::Symbol)
                    && takes_them;
                if !is_possible {
                    return Err(Flaw::Unknown);
                }
                vec![Access::read(from), Access::write(to)]
            }
        })
    }
}

/// Whether copies treat it as device memory.
fn is_of_device(memory: Memory) -> bool {
    matches!(memory, Memory::Device | Memory::Pooled | Memory::Managed | Memory::Array)
}

/// Whether it copies rows, for which pageable memory need not be staged.
fn is_of_rows(by: Copy) -> bool {
    matches!(
        by,
        Copy::Rows | Copy::DriverArray | Copy::Box | Copy::BatchBox | Copy::DriverBox | Copy::DriverRows
    )
}
