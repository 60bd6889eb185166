//! How urgent queues are, and what schedules the process.

use xsched_preload::hints::SLICE_US;
use xsched_sched::{Nanos, PolicyKind};
use xsched_xqueue::{SchedulerChoice, Tuning};

use crate::defer;
use crate::explicit::code::XResult;
use crate::explicit::handle::Handle;
use crate::explicit::objects::objects;
use crate::explicit::refusal::{Refusal, refuse};
use crate::explicit::xqueue::XQueue;

/// `PRIORITY_NO_EXECUTE`
const NO_EXECUTE: i32 = -256;

/// `NO_DEADLINE`
const NO_DEADLINE: i64 = -1;

/// `XSchedulerType`
const APP_MANAGED: i32 = 1;
const LOCAL: i32 = 2;
const GLOBAL: i32 = 3;

/// `XHintSetScheduler`. The policy matters where the process schedules itself.
pub(crate) fn set_scheduler(scheduler: i32, policy: i32) -> Result<(), XResult> {
    let choice = match scheduler {
        APP_MANAGED => SchedulerChoice::None,
        LOCAL => SchedulerChoice::Itself(policy_numbered(policy)?),
        GLOBAL => SchedulerChoice::Controller,
        _ => return Err(XResult::INVALID_VALUE),
    };
    if defer::ask_for_scheduler(choice) { Ok(()) } else { Err(refuse(Refusal::SchedulerStarted)) }
}

/// `XPolicyType`
fn policy_numbered(number: i32) -> Result<PolicyKind, XResult> {
    match number {
        1 => Ok(PolicyKind::Priority),
        3 => Ok(PolicyKind::Nice),
        4 | 5 => Ok(PolicyKind::Partition),
        7 => Ok(PolicyKind::Edf),
        8 => Ok(PolicyKind::Laxity),
        10 => Ok(PolicyKind::Fair),
        11 => Ok(PolicyKind::Mlfq),
        2 | 6 | 9 => Err(refuse(Refusal::Policy)),
        _ => Err(XResult::INVALID_VALUE),
    }
}

fn ask(queue: Handle, ask: impl FnOnce(&XQueue) -> bool) -> Result<(), XResult> {
    let queue = objects().xqueue(queue)?;
    if ask(&queue) { Ok(()) } else { Err(refuse(Refusal::TooManyHints)) }
}

/// `XHintPriority`
pub(crate) fn priority(queue: Handle, priority: i32) -> Result<(), XResult> {
    if !(NO_EXECUTE..=255).contains(&priority) {
        return Err(XResult::INVALID_VALUE);
    }
    ask(queue, |queue| {
        queue.exclude(priority == NO_EXECUTE);
        let priority = (priority != NO_EXECUTE).then_some(priority as i16);
        queue.ask(|hints| hints.priority = priority.or(hints.priority))
    })
}

/// `XHintUtilization`
pub(crate) fn utilization(queue: Handle, percent: i32) -> Result<(), XResult> {
    if !(0..=100).contains(&percent) {
        return Err(XResult::INVALID_VALUE);
    }
    ask(queue, |queue| queue.ask(|hints| hints.utilization = Some(percent as u8)))
}

/// `XHintDeadline`
pub(crate) fn deadline(queue: Handle, deadline_us: i64) -> Result<(), XResult> {
    let deadline_us = match deadline_us {
        NO_DEADLINE => None,
        1.. => Some(u32::try_from(deadline_us).unwrap_or(u32::MAX)),
        _ => return Err(XResult::INVALID_VALUE),
    };
    ask(queue, |queue| queue.ask(|hints| hints.deadline_us = deadline_us))
}

/// `XHintLaxity`
pub(crate) fn laxity(queue: Handle) -> Result<(), XResult> {
    objects().xqueue(queue)?;
    Err(refuse(Refusal::Laxity))
}

/// `XHintTimeslice`
pub(crate) fn time_slice(slice_us: i64) -> Result<(), XResult> {
    if !(SLICE_US.0..=SLICE_US.1).contains(&slice_us) {
        return Err(XResult::INVALID_VALUE);
    }
    tune(Tuning { slice: Some(Nanos::from_micros(slice_us.unsigned_abs())), ..Tuning::default() })
}

/// `XHintKDeadline`
pub(crate) fn k_deadline(side_by_side: usize) -> Result<(), XResult> {
    if side_by_side == 0 {
        return Err(XResult::INVALID_VALUE);
    }
    let side_by_side = Some(u32::try_from(side_by_side).unwrap_or(u32::MAX));
    tune(Tuning { side_by_side, ..Tuning::default() })
}

fn tune(tuning: Tuning) -> Result<(), XResult> {
    if defer::tune_scheduler(tuning) { Ok(()) } else { Err(refuse(Refusal::Tuning)) }
}
