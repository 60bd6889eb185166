//! Functions of queues: submission, waiting, suspension.

use std::sync::Arc;

use xsched_preload::env;
use xsched_sched::Limit;
use xsched_xqueue::QueueHints;

use crate::defer::Submitted;
use crate::explicit::code::XResult;
use crate::explicit::handle::Handle;
use crate::explicit::objects::objects;
use crate::explicit::refusal::{Refusal, refuse, say};
use crate::explicit::xqueue::XQueue;

/// The most commands that a program may ask to have launched ahead.
const COMMANDS_MAX: i64 = 1024;

/// `XPreemptLevel`
const LEVELS: std::ops::RangeInclusive<i64> = 1..=3;
const LEVEL_BLOCK: i64 = 1;
const LEVEL_INTERRUPT: i64 = 3;

/// `XQueueCreateFlag`
const BLOCKING_SUBMIT: i64 = 1;

/// `XQueueSuspendFlag`: `SyncHwQueue`, `WaitAll` and `WaitIdle`
const SYNC_HW_QUEUE: i64 = 1;
const WAIT_FIRST: i64 = 2 | 4;

/// `XQueueResumeFlag`
const DROP_COMMANDS: i64 = 1;

/// `XQueueState`
const IDLE: u32 = 1;
const READY: u32 = 2;

fn found(queue: Handle) -> Result<Arc<XQueue>, XResult> {
    objects().xqueue(queue)
}

/// Flags that are defined, or all.
fn check_flags(flags: i64, defined: i64) -> Result<(), XResult> {
    if flags == -1 || flags & !defined == 0 { Ok(()) } else { Err(XResult::INVALID_VALUE) }
}

fn check_level(level: i64) -> Result<(), XResult> {
    if LEVELS.contains(&level) { Ok(()) } else { Err(XResult::INVALID_VALUE) }
}

fn apply_level(queue: &XQueue, level: i64) {
    if level == LEVEL_INTERRUPT {
        say(Refusal::Interrupt);
    }
    queue.hw_queue().queue().use_gates(level > LEVEL_BLOCK);
}

/// `XQueueCreate`. A hardware queue has one queue.
pub(crate) fn create(hw_queue: Handle, level: i64, flags: i64) -> Result<Handle, XResult> {
    check_level(level)?;
    check_flags(flags, BLOCKING_SUBMIT)?;
    if flags & BLOCKING_SUBMIT != 0 {
        return Err(refuse(Refusal::BlockingSubmit));
    }
    let mut objects = objects();
    let (queue, is_new) = objects.hw_queue(hw_queue).map(|of| objects.add_xqueue(&of))?;
    drop(objects);
    if is_new {
        queue.begin();
        apply_level(&queue, level);
    }
    Ok(queue.handle())
}

/// `XQueueDestroy`: what the queue keeps goes, and the caller waits for it.
pub(crate) fn destroy(queue: Handle) -> Result<(), XResult> {
    let closed = found(queue)?;
    let own = closed.hw_queue().queue();
    if own.is_inside() {
        return Err(refuse(Refusal::WaitsForItself));
    }
    closed.close();
    // While the hardware queue still has it: another one could be made right after, with settings of its own.
    own.ask(QueueHints::NONE);
    own.set_limit(None);
    own.use_gates(true);
    objects().remove_xqueue(queue)?;
    closed.wait_all()
}

/// `XQueueGet`
pub(crate) fn of_hw_queue(hw_queue: Handle) -> Result<Handle, XResult> {
    let mut objects = objects();
    if let Some(known) = objects.of_hw_queue(hw_queue) {
        return Ok(known);
    }
    // With XSched this is the queue that it has made by itself.
    let is_automatic = env::word("XSCHED_AUTO_XQUEUE")
        .is_some_and(|word| ["on", "1", "true", "yes"].iter().any(|yes| word.eq_ignore_ascii_case(yes)));
    if !is_automatic {
        return Err(XResult::NOT_FOUND);
    }
    let (queue, is_new) = objects.hw_queue(hw_queue).map(|of| objects.add_xqueue(&of))?;
    drop(objects);
    if is_new {
        queue.begin();
    }
    Ok(queue.handle())
}

/// `XQueueSetPreemptLevel`
pub(crate) fn set_level(queue: Handle, level: i64) -> Result<(), XResult> {
    check_level(level)?;
    apply_level(&*found(queue)?, level);
    Ok(())
}

/// `XQueueSetLaunchConfig`: a number that is not positive leaves that one as it is.
pub(crate) fn set_launch_config(queue: Handle, threshold: i64, batch: i64) -> Result<(), XResult> {
    let queue = found(queue)?;
    let mut state = queue.state();
    if state.is_closed {
        return Err(XResult::NOT_FOUND);
    }
    let given = |number: i64| (number > 0).then(|| number.min(COMMANDS_MAX));
    let (threshold, batch) = (given(threshold).or(state.threshold), given(batch).or(state.batch));
    // As with the variables: one determines the other.
    let Some(most) = threshold.or(batch.map(|batch| 2 * batch)) else { return Ok(()) };
    let at_once = batch.unwrap_or((most + 1) / 2);
    if at_once > most {
        return Err(XResult::INVALID_VALUE);
    }
    (state.threshold, state.batch) = (threshold, batch);
    let limit = Limit::Commands { threshold: most as u32, batch: at_once as u32 };
    queue.hw_queue().queue().set_limit(Some(limit));
    Ok(())
}

/// `XQueueSubmit`: takes the command, and returns before it runs.
pub(crate) fn submit(queue: Handle, handle: Handle) -> Result<(), XResult> {
    let mut objects = objects();
    let queue = objects.xqueue(queue)?;
    let command = objects.take_command(handle)?;
    drop(objects);
    let give_back = |code| {
        self::objects().return_command(handle, command);
        Err(code)
    };
    loop {
        match queue.try_submit(handle, command) {
            Ok(Submitted::At(_)) => return Ok(()),
            Ok(Submitted::Full) if queue.hw_queue().queue().is_inside() => {
                return give_back(refuse(Refusal::WaitsForItself));
            }
            Ok(Submitted::Full) if queue.hw_queue().queue().is_held_by_caller() => {
                return give_back(refuse(Refusal::FullAndSuspended));
            }
            Ok(Submitted::Full) => queue.hw_queue().queue().wait_while_full(),
            Ok(Submitted::InPlace) => {
                queue.hw_queue().queue().run_in_place(&command.on(queue.hw_queue()));
                queue.state().submitted += 1;
                return Ok(());
            }
            Ok(Submitted::Gone) => return give_back(XResult::NOT_FOUND),
            Ok(Submitted::Ending) => return give_back(XResult::NOT_ALLOWED),
            Err(code) => return give_back(code),
        }
    }
}

/// `XQueueWait`
pub(crate) fn wait(queue: Handle, command: Handle) -> Result<(), XResult> {
    let queue = found(queue)?;
    match queue.position_of(command) {
        Some(position) => queue.hw_queue().waited(queue.hw_queue().queue().wait(position)),
        // Nothing would ever end that wait.
        None if objects().has_command(command) => Err(XResult::NOT_ALLOWED),
        None => Err(XResult::NOT_FOUND),
    }
}

/// `XQueueWaitAll`
pub(crate) fn wait_all(queue: Handle) -> Result<(), XResult> {
    found(queue)?.wait_all()
}

/// `XQueueQuery`
pub(crate) fn query(queue: Handle) -> Result<u32, XResult> {
    Ok(if found(queue)?.hw_queue().queue().is_idle() { IDLE } else { READY })
}

/// `XQueueSuspend`
pub(crate) fn suspend(queue: Handle, flags: i64) -> Result<(), XResult> {
    check_flags(flags, SYNC_HW_QUEUE | WAIT_FIRST)?;
    let queue = found(queue)?;
    if queue.state().is_suspended {
        return Ok(());
    }
    if flags & WAIT_FIRST != 0 {
        queue.wait_all()?;
    }
    queue.suspend(true);
    if flags & SYNC_HW_QUEUE != 0 {
        queue.hw_queue().waited(queue.hw_queue().queue().wait_launched())?;
    }
    Ok(())
}

/// `XQueueResume`
pub(crate) fn resume(queue: Handle, flags: i64) -> Result<(), XResult> {
    check_flags(flags, DROP_COMMANDS)?;
    if flags & DROP_COMMANDS != 0 {
        say(Refusal::DropCommands);
    }
    found(queue)?.suspend(false);
    Ok(())
}

/// `XQueueProfileHwCommandCount`: the commands given to it, and the program's other calls on its stream.
pub(crate) fn count(queue: Handle) -> Result<i64, XResult> {
    Ok(found(queue)?.count().min(i64::MAX as u64) as i64)
}
