//! Which queue's command the calling thread is launching.
//!
//! A command may be a function of the program's ([`CallState::ToBeMade`](crate::CallState::ToBeMade)) that calls back into the
//! queues. For its own thread the command counts as launched: it cannot wait for itself.

use std::cell::Cell;

use crate::ids::QueueId;

thread_local! {
    static LAUNCHING: Cell<Option<QueueId>> = const { Cell::new(None) };
}

/// The queue whose command the calling thread is launching.
#[inline]
pub fn launching_queue() -> Option<QueueId> {
    LAUNCHING.try_with(Cell::get).ok().flatten()
}

/// Launches a command of this queue.
pub(crate) fn during<R>(queue: QueueId, launch: impl FnOnce() -> R) -> R {
    let _ = LAUNCHING.try_with(|launching| launching.set(Some(queue)));
    let launched = launch();
    let _ = LAUNCHING.try_with(|launching| launching.set(None));
    launched
}
