//! Functions of hardware queues.

use xsched_xqueue::launching_queue;

use crate::abi::Stream;
use crate::defer::{NoQueue, ProgramQueue};
use crate::explicit::code::XResult;
use crate::explicit::handle::Handle;
use crate::explicit::hw_queue::HwQueue;
use crate::explicit::objects;
use crate::explicit::refusal::{Refusal, refuse, say};
use crate::runtime::copies::RuntimeCopy;

/// `HipQueueCreate`, of a caller that reaches this runtime copy. A stream has one hardware queue.
pub(crate) fn create_for_stream(
    copy: Option<&'static RuntimeCopy>,
    reaches_shim: bool,
    stream: Stream,
) -> Result<Handle, XResult> {
    let copy = copy.ok_or_else(|| refuse(Refusal::NoRuntime))?;
    if !reaches_shim {
        say(Refusal::NotInterposed);
    }
    let queue = ProgramQueue::of(copy, stream).map_err(|none| match none {
        NoQueue::PerThread => refuse(Refusal::PerThreadStream),
        NoQueue::NoStream => XResult::INVALID_VALUE,
    })?;
    Ok(objects::objects().add_hw_queue(queue.id(), |handle| HwQueue::new(handle, queue)))
}

/// `HwQueueDestroy`. The stream stays.
pub(crate) fn destroy_hw_queue(queue: Handle) -> Result<(), XResult> {
    objects::objects().remove_hw_queue(queue)
}

/// `HwQueueSynchronize`
pub(crate) fn synchronize(queue: Handle) -> Result<(), XResult> {
    let queue = objects::objects().hw_queue(queue)?;
    queue.waited(queue.queue().wait_all())
}

/// A stream is about to be destroyed: its queue takes no more commands, and keeps none.
pub(crate) fn stream_ends(copy: &'static RuntimeCopy, stream: Stream) {
    if !objects::is_any() {
        return;
    }
    let Some(queue) = ProgramQueue::known(copy, stream) else { return };
    if launching_queue() == Some(queue) {
        return say(Refusal::WaitsForItself);
    }
    let mut objects = objects::objects();
    let ended = objects.of_stream(queue).map(|hw_queue| objects.remove_ended(hw_queue.handle()));
    drop(objects);
    if let Some(Some(xqueue)) = ended {
        xqueue.close();
    }
}

/// A device is about to be reset, which destroys its streams: the same for all of them, the null stream included.
pub(crate) fn device_resets(copy: &'static RuntimeCopy, device: i32) {
    if !objects::is_any() {
        return;
    }
    let mut objects = objects::objects();
    let ended = objects.all_hw_queues();
    let ended = ended.iter().filter(|hw_queue| hw_queue.queue().is_on(copy, device));
    if ended.clone().any(|hw_queue| hw_queue.queue().is_inside()) {
        return say(Refusal::WaitsForItself);
    }
    let xqueues: Vec<_> = ended.filter_map(|hw_queue| objects.remove_ended(hw_queue.handle())).collect();
    drop(objects);
    for xqueue in xqueues {
        xqueue.close();
    }
}
