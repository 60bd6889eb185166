//! How a process waits for the masks to change, without being able to touch what it waits on.
//!
//! What is waited on wakes all that poll it, again and again, and always has something to read. Each process gets an
//! epoll instance of its own in which it is registered edge-triggered: a wait returns if something happened since the
//! last one. The process cannot reach behind the instance, since to change a registration one needs the descriptor.
//!
//! That there always is something to read matters: when a wait ends, the kernel asks what woke it whether it is still
//! readable, and sleeps on if not. The controller, reading everything, would put others to sleep again.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// An epoll instance that becomes readable whenever `source` wakes those that poll it.
pub(crate) fn edge(source: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let instance = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&instance, source, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
    Ok(instance)
}
