//! Commands: functions of the program's, which put something on a stream when they are called.

use std::ffi::c_void;

use crate::explicit::callback::Callback;
use crate::explicit::code::XResult;
use crate::explicit::handle::Handle;
use crate::explicit::objects::objects;
use crate::hip::program::LaunchCallback;

/// `HwCommandCreateCallback`
pub(crate) fn create_callback(launch: Option<LaunchCallback>, data: *mut c_void) -> Result<Handle, XResult> {
    let launch = launch.ok_or(XResult::INVALID_VALUE)?;
    Ok(objects().add_command(Callback { launch, data }))
}

/// `HwCommandDestroy`. A command that was given to a queue still runs; only its handle goes.
pub(crate) fn destroy_command(command: Handle) -> Result<(), XResult> {
    let mut objects = objects();
    if objects.take_command(command).is_ok() {
        return Ok(());
    }
    let queues = objects.all_xqueues();
    drop(objects);
    let was_submitted = queues.iter().any(|queue| queue.forget_command(command));
    was_submitted.then_some(()).ok_or(XResult::NOT_FOUND)
}

/// `HwQueueLaunch`: the function runs now, on the calling thread. Its calls go the usual way, so they overtake nothing.
pub(crate) fn launch(queue: Handle, command: Handle) -> Result<XResult, XResult> {
    let mut objects = objects();
    let queue = objects.hw_queue(queue)?;
    let command = objects.take_command(command)?.on(&queue);
    drop(objects);
    let code = command.call();
    // The program is told here.
    command.failure.take();
    Ok(XResult(code))
}
