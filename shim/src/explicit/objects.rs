//! Which handle is which object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_preload::fork::Renewable;
use xsched_xqueue::QueueId;

use crate::explicit::callback::Callback;
use crate::explicit::code::XResult;
use crate::explicit::handle::Handle;
use crate::explicit::hw_queue::HwQueue;
use crate::explicit::xqueue::XQueue;

/// All objects of the process.
#[derive(Debug, Default)]
pub(super) struct Objects {
    given: u64,
    hw_queues: HashMap<Handle, Arc<HwQueue>>,
    /// The same by the queues of their streams.
    of_streams: HashMap<QueueId, Handle>,
    xqueues: HashMap<Handle, Arc<XQueue>>,
    /// The queue of each hardware queue that has one.
    of_hw_queues: HashMap<Handle, Handle>,
    commands: HashMap<Handle, Callback>,
}

static OBJECTS: Renewable<Mutex<Objects>> = Renewable::new();

/// Locks the table. Not held while the program's code runs, or a thread waits.
pub(super) fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there may be any object.
pub(super) fn is_any() -> bool {
    OBJECTS.existing().is_some()
}

/// In a forked child: the objects are its parent's.
pub(crate) fn renew_after_fork() {
    OBJECTS.renew();
}

/// Above the numbers of handles. Linux counts processes by at most 22 bits.
const PID_SHIFT: u32 = 42;

impl Objects {
    /// A handle that no object of any process on this machine has, as far as process ids tell.
    fn next(&mut self) -> Handle {
        self.given += 1;
        Handle(u64::from(std::process::id()) << PID_SHIFT | self.given)
    }

    /// A hardware queue whose stream is there. The shim may have seen no end of a stream whose handle is another's now.
    pub(super) fn hw_queue(&self, handle: Handle) -> Result<Arc<HwQueue>, XResult> {
        let known = self.hw_queues.get(&handle).filter(|known| known.queue().exists());
        known.cloned().ok_or(XResult::NOT_FOUND)
    }

    /// A queue whose stream is there.
    pub(super) fn xqueue(&self, handle: Handle) -> Result<Arc<XQueue>, XResult> {
        let known = self.xqueues.get(&handle).filter(|known| known.hw_queue().queue().exists());
        known.cloned().ok_or(XResult::NOT_FOUND)
    }

    /// The hardware queue of a stream's queue.
    pub(super) fn of_stream(&self, queue: QueueId) -> Option<Arc<HwQueue>> {
        self.hw_queues.get(self.of_streams.get(&queue)?).cloned()
    }

    /// The queue of a hardware queue.
    pub(super) fn of_hw_queue(&self, hw_queue: Handle) -> Option<Handle> {
        self.of_hw_queues.get(&hw_queue).copied()
    }

    /// The hardware queue of a stream's queue, a new one if need be.
    pub(super) fn add_hw_queue(&mut self, queue: QueueId, make: impl FnOnce(Handle) -> HwQueue) -> Handle {
        if let Some(known) = self.of_streams.get(&queue) {
            return *known;
        }
        self.forget_ended();
        let handle = self.next();
        self.of_streams.insert(queue, handle);
        self.hw_queues.insert(handle, Arc::new(make(handle)));
        handle
    }

    /// Forgets everything of streams that are not there any more.
    fn forget_ended(&mut self) {
        let ended: Vec<_> =
            self.hw_queues.values().filter(|known| !known.queue().exists()).cloned().collect();
        for hw_queue in ended {
            self.remove_ended(hw_queue.handle());
        }
    }

    /// Forgets a hardware queue whose stream ends, and its queue, which is returned.
    pub(super) fn remove_ended(&mut self, handle: Handle) -> Option<Arc<XQueue>> {
        self.hw_queues.remove(&handle);
        self.of_streams.retain(|_, of| *of != handle);
        let xqueue = self.of_hw_queues.remove(&handle)?;
        self.xqueues.remove(&xqueue)
    }

    /// Forgets a hardware queue that has no queue.
    pub(super) fn remove_hw_queue(&mut self, handle: Handle) -> Result<(), XResult> {
        if self.of_hw_queues.contains_key(&handle) {
            return Err(XResult::NOT_ALLOWED);
        }
        self.hw_queues.remove(&handle).ok_or(XResult::NOT_FOUND)?;
        self.of_streams.retain(|_, of| *of != handle);
        Ok(())
    }

    /// The queue of a hardware queue, a new one if need be; whether it is new.
    pub(super) fn add_xqueue(&mut self, of: &Arc<HwQueue>) -> (Arc<XQueue>, bool) {
        let known = self.of_hw_queues.get(&of.handle()).and_then(|known| self.xqueues.get(known)).cloned();
        if let Some(known) = known {
            return (known, false);
        }
        let handle = self.next();
        let xqueue = Arc::new(XQueue::new(handle, Arc::clone(of)));
        self.of_hw_queues.insert(of.handle(), handle);
        self.xqueues.insert(handle, Arc::clone(&xqueue));
        (xqueue, true)
    }

    pub(super) fn remove_xqueue(&mut self, handle: Handle) -> Result<Arc<XQueue>, XResult> {
        let removed = self.xqueues.remove(&handle).ok_or(XResult::NOT_FOUND)?;
        self.of_hw_queues.remove(&removed.hw_queue().handle());
        Ok(removed)
    }

    pub(super) fn add_command(&mut self, command: Callback) -> Handle {
        let handle = self.next();
        self.commands.insert(handle, command);
        handle
    }

    pub(super) fn has_command(&self, handle: Handle) -> bool {
        self.commands.contains_key(&handle)
    }

    /// Takes a command: no other thread can.
    pub(super) fn take_command(&mut self, handle: Handle) -> Result<Callback, XResult> {
        self.commands.remove(&handle).ok_or(XResult::NOT_FOUND)
    }

    /// Gives a command back that was taken.
    pub(super) fn return_command(&mut self, handle: Handle, command: Callback) {
        self.commands.insert(handle, command);
    }

    pub(super) fn all_hw_queues(&self) -> Vec<Arc<HwQueue>> {
        self.hw_queues.values().cloned().collect()
    }

    pub(super) fn all_xqueues(&self) -> Vec<Arc<XQueue>> {
        self.xqueues.values().cloned().collect()
    }
}
