//! The settings that the environment has for this process. They are hints, which the controller limits.

use std::path::PathBuf;

use xsched_sched::{Limit, Nanos, PolicyKind};
use xsched_xqueue::{SchedulerChoice, Settings, Tuning};

use crate::{env, log};

/// The most commands that a program may ask to have launched ahead.
const COMMANDS_MAX: i64 = 1024;

/// The shortest and the longest time slice in XSched's terms, in microseconds.
pub const SLICE_US: (i64, i64) = (100, 10_000_000);

/// The settings for queues.
pub fn settings() -> Settings {
    Settings {
        scheduler: scheduled_by(
            env::word("XSCHED_SCHEDULER").as_deref(),
            env::word("XSCHED_POLICY").as_deref(),
        ),
        tuning: Tuning {
            slice: hint("XSCHED_AUTO_XQUEUE_TIMESLICE", SLICE_US.0, SLICE_US.1)
                .map(|slice| Nanos::from_micros(u64::from(slice.cast_unsigned()))),
            side_by_side: hint("XSCHED_AUTO_XQUEUE_KDEADLINE", 1, i32::MAX.into()).map(i32::cast_unsigned),
        },
        priority: hint("XSCHED_AUTO_XQUEUE_PRIORITY", -255, 255),
        utilization: hint("XSCHED_AUTO_XQUEUE_UTILIZATION", 0, 100).map(i32::cast_unsigned),
        deadline_us: hint("XSCHED_AUTO_XQUEUE_DEADLINE", 1, i32::MAX.into()).map(i32::cast_unsigned),
        token: env::token().and_then(|token| parse_token(&token)).unwrap_or_default(),
        limit: limit(),
        preemption_mode: hint("XSCHED_AUTO_XQUEUE_LEVEL", 1, 3).map(i32::cast_unsigned),
        socket_folder: env::socket_folder().map(PathBuf::from),
        user_folder: env::user_folder().map(PathBuf::from),
    }
}

/// As with XSched, a policy alone means that the process schedules itself. An unknown scheduler is ignored; of an unknown policy
/// the log knows.
fn scheduled_by(scheduler: Option<&str>, policy: Option<&str>) -> SchedulerChoice {
    match (scheduler.map(str::to_ascii_lowercase).as_deref(), policy) {
        (Some("lcl" | "local"), policy) => SchedulerChoice::Itself(policy_named(policy)),
        (Some("app"), _) => SchedulerChoice::None,
        (None, Some(policy)) if !policy.is_empty() => SchedulerChoice::Itself(policy_named(Some(policy))),
        _ => SchedulerChoice::Controller,
    }
}

fn policy_named(name: Option<&str>) -> PolicyKind {
    let Some(name) = name else { return PolicyKind::Priority };
    name.to_ascii_lowercase().parse().unwrap_or_else(|_| {
        log::write(&format!("xsched-shim: there is no policy `{name}` here: it is `priority` instead\n"));
        PolicyKind::Priority
    })
}

/// How much the program wants to have launched ahead, in XSched's terms: commands, and how many of them at once. Like
/// everything in the shim this does not bind a malicious program, which could also launch past the shim.
pub fn limit() -> Option<Limit> {
    let threshold = hint("XSCHED_AUTO_XQUEUE_THRESHOLD", 1, COMMANDS_MAX);
    let batch = hint("XSCHED_AUTO_XQUEUE_BATCH_SIZE", 1, COMMANDS_MAX);
    limit_of(threshold.map(i32::cast_unsigned), batch.map(i32::cast_unsigned))
}

/// If only one of the two is given, it determines the other: a batch is half of the threshold.
fn limit_of(threshold: Option<u32>, batch: Option<u32>) -> Option<Limit> {
    let threshold = threshold.or(batch.map(|batch| 2 * batch))?;
    Some(Limit::Commands { threshold, batch: batch.unwrap_or(threshold.div_ceil(2)) })
}

/// A number within these bounds.
fn hint(variable: &str, min: i64, max: i64) -> Option<i32> {
    env::hint(variable).map(|value| value.clamp(min, max) as i32)
}

/// Sixteen bytes in hexadecimal digits.
fn parse_token(text: &str) -> Option<[u8; 16]> {
    let mut token = [0; 16];
    let digits = text.as_bytes();
    (digits.len() == 2 * token.len()).then_some(())?;
    for (byte, pair) in token.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_is_chosen_by_xscheds_words() {
        assert_eq!(scheduled_by(None, None), SchedulerChoice::Controller);
        assert_eq!(scheduled_by(None, Some("fair")), SchedulerChoice::Itself(PolicyKind::Fair));
        assert_eq!(scheduled_by(Some("GLB"), Some("fair")), SchedulerChoice::Controller);
        assert_eq!(scheduled_by(Some("LCL"), Some("AWF")), SchedulerChoice::Itself(PolicyKind::Priority));
        assert_eq!(scheduled_by(Some("GLB"), None), SchedulerChoice::Controller);
        assert_eq!(scheduled_by(Some("APP"), None), SchedulerChoice::None);
        assert_eq!(scheduled_by(Some("LCL"), None), SchedulerChoice::Itself(PolicyKind::Priority));
        assert_eq!(scheduled_by(Some("LCL"), Some("CFS")), SchedulerChoice::Itself(PolicyKind::Fair));
        assert_eq!(scheduled_by(Some("local"), Some("fair")), SchedulerChoice::Itself(PolicyKind::Fair));
    }

    #[test]
    fn a_threshold_or_a_batch_determines_the_other() {
        assert_eq!(limit_of(None, None), None);
        let commands = |threshold, batch| Some(Limit::Commands { threshold, batch });
        assert_eq!(limit_of(Some(16), None), commands(16, 8));
        assert_eq!(limit_of(None, Some(8)), commands(16, 8));
        assert_eq!(limit_of(Some(5), Some(2)), commands(5, 2));
        assert_eq!(limit_of(Some(1), None), commands(1, 1));
    }

    #[test]
    fn a_token_is_sixteen_bytes() {
        let token = parse_token("000102030405060708090a0b0c0d0eff");
        assert_eq!(token, Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]));
        for wrong in ["", "00", "zz0102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0eff00"] {
            assert_eq!(parse_token(wrong), None, "{wrong}");
        }
    }
}
