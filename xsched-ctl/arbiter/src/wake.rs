//! Lets a process wait for changes of the masks without access to the descriptor that it waits for.
//!
//! The source of a device's wake-ups wakes all its pollers repeatedly, and always has data to read. Each process gets separate
//! epoll instances in which the sources of its devices are registered edge-triggered: a wait returns if there was a wake-up since
//! the last wait. The process cannot reach a source through the instance, because changing a registration needs the source's
//! descriptor.
//!
//! A process can add a file to its instance whose `poll` never returns, such as one of its own FUSE file system. The kernel holds the
//! instance's mutex meanwhile, and takes it, uninterruptibly, for every change of its registrations, and when a registered file is
//! closed for good (`eventpoll_release_file`). So nothing is added to an instance that a process has, and a source stays open for as
//! long as the controller runs. Nor are instances nested: to add one to another takes a mutex that the whole machine shares.
//!
//! The source must always have data to read. When a waiter wakes, the kernel checks again whether the source is readable, and
//! continues the wait if it is not (<https://github.com/torvalds/linux/blob/v6.12/fs/eventpoll.c>, `ep_send_events`). If the
//! controller read all data, other waiters would go back to sleep.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// An epoll instance for one process, with no source yet.
pub(crate) fn instance() -> io::Result<OwnedFd> {
    Ok(epoll::create(CreateFlags::CLOEXEC)?)
}

/// From now on the instance becomes readable whenever `source` wakes its pollers. No process has it yet.
pub(crate) fn add(instance: BorrowedFd<'_>, source: BorrowedFd<'_>) -> io::Result<()> {
    match epoll::add(instance, source, EventData::new_u64(0), EventFlags::IN | EventFlags::ET) {
        Err(Errno::EXIST) => Ok(()),
        outcome => Ok(outcome?),
    }
}
