//! What the program asks for itself while it runs: hints for the controller, which go before those of the environment.
//!
//! The C functions are in `shim/include/xsched_hints.h`. They speak for the whole process. What is asked for before the process
//! has joined a controller, or beside another one later, is sent when it joins.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_protocol::wire::{Hello, Hints};
use xsched_sched::class_priority;
use xsched_xqueue::{About, Connection, Settings};

use crate::behind::Behind;
use crate::fork::Renewable;
use crate::hints;

/// What functions return: `hipSuccess` and `hipErrorInvalidValue`.
const DONE: c_int = 0;
const INVALID: c_int = 1;

const PRIORITIES: std::ops::RangeInclusive<c_int> = -255..=255;
const DEADLINES_US: std::ops::RangeInclusive<u64> = 1..=i32::MAX as u64;

/// Nothing is asked for.
const NO_PRIORITY: i64 = i64::MIN;
const NO_DEADLINE: u64 = 0;

/// A forked child asks for the same as its parent.
static PRIORITY: AtomicI64 = AtomicI64::new(NO_PRIORITY);
static DEADLINE_NS: AtomicU64 = AtomicU64::new(NO_DEADLINE);

/// The controller that the process has joined, and what the environment asks for. The lock orders changes: what is asked for last is
/// sent last.
static JOINED: Renewable<Mutex<Option<Joined>>> = Renewable::new();

struct Joined {
    connection: Arc<Connection>,
    environment: Settings,
}

fn joined() -> MutexGuard<'static, Option<Joined>> {
    JOINED.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process has joined a controller. None: it has none any more.
pub fn connect(connection: Option<&Arc<Connection>>) {
    let mut joined = joined();
    fence(Ordering::SeqCst);
    *joined = connection
        .map(|connection| Joined { connection: Arc::clone(connection), environment: hints::settings() });
    let asks =
        PRIORITY.load(Ordering::Relaxed) != NO_PRIORITY || DEADLINE_NS.load(Ordering::Relaxed) != NO_DEADLINE;
    // Otherwise the controller knows all from the first packet.
    if let Some(joined) = joined.as_ref().filter(|_| asks) {
        joined.send();
    }
}

/// In a forked child: the connection is its parent's.
pub fn renew_after_fork() {
    JOINED.renew();
}

impl Joined {
    /// Sends all hints, also those of the environment. If the controller is so far behind that it takes none now, the watcher sends the
    /// newest ones later: the program's threads do not wait for it.
    fn send(&self) {
        let own = i32::try_from(PRIORITY.load(Ordering::Relaxed)).ok();
        let deadline_ns = DEADLINE_NS.load(Ordering::Relaxed);
        let own_deadline = (deadline_ns != NO_DEADLINE).then_some(deadline_ns);
        let packet = packet(&self.environment, own, own_deadline);
        // An end of the connection is the watcher's business: the next controller gets all hints.
        let _ = self.connection.post(&packet, Some(About::Hints));
    }
}

/// What the program asks for, and what the environment asks for beside it.
fn packet(environment: &Settings, priority: Option<i32>, deadline_ns: Option<u64>) -> Hints {
    let usual = environment.hints();
    let given = |is_given, bit| if is_given { bit } else { 0 };
    Hints {
        hints: usual.hints
            | given(priority.is_some(), Hello::PRIORITY)
            | given(deadline_ns.is_some(), Hello::DEADLINE),
        priority: priority.unwrap_or(usual.priority),
        deadline_ns: deadline_ns.unwrap_or(usual.deadline_ns),
        ..usual
    }
}

/// A priority that a program asks for.
///
/// # Errors
/// There is no such priority.
pub fn priority_of(priority: Option<&c_int>) -> Result<Option<i16>, NoHint> {
    match priority {
        Some(priority) if !PRIORITIES.contains(priority) => Err(NoHint),
        priority => Ok(priority.map(|&priority| priority as i16)),
    }
}

/// A deadline that a program asks for, in microseconds.
///
/// # Errors
/// There is no such deadline.
pub fn deadline_us_of(deadline_us: Option<&u64>) -> Result<Option<u32>, NoHint> {
    match deadline_us {
        Some(deadline_us) if !DEADLINES_US.contains(deadline_us) => Err(NoHint),
        deadline_us => Ok(deadline_us.map(|&deadline_us| deadline_us as u32)),
    }
}

/// What a program asks for is no hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHint;

fn ask(change: impl FnOnce()) {
    if JOINED.existing().is_none() {
        change();
        // Either this sees that a controller is being joined, or `connect` sees the change. So nothing is locked before the first use
        // of a device, when nothing tells a forked child to renew the lock.
        fence(Ordering::SeqCst);
        if JOINED.existing().is_some() {
            resend();
        }
        return;
    }
    let joined = joined();
    change();
    if let Some(joined) = joined.as_ref() {
        joined.send();
    }
}

fn resend() {
    if let Some(joined) = joined().as_ref() {
        joined.send();
    }
}

/// Tells the shim behind this one the same.
///
/// # Safety
/// The function must be of this type, and the argument what it may be.
unsafe fn pass_on<T>(function: &Behind, argument: *const T) {
    if let Some(function) = function.get() {
        // SAFETY: the caller's promise.
        unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const T) -> c_int>(function.as_ptr())(
                argument,
            )
        };
    }
}

/// The process's priority from now on, beside all runtimes; null: as the environment says.
///
/// C: `int xsched_hint_priority(const int *priority)`.
///
/// # Safety
/// `priority` must be null or point to an `int`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn xsched_hint_priority(priority: *const c_int) -> c_int {
    static BEHIND: Behind = Behind::new(c"xsched_hint_priority");
    // SAFETY: the caller's promise.
    let Ok(wanted) = priority_of(unsafe { priority.as_ref() }) else { return INVALID };
    ask(|| PRIORITY.store(wanted.map_or(NO_PRIORITY, i64::from), Ordering::Relaxed));
    // SAFETY: this function in another shim, with the caller's argument.
    unsafe { pass_on(&BEHIND, priority) };
    DONE
}

/// The deadline of the process's requests from now on, in microseconds, beside all runtimes; null: as the environment says.
///
/// C: `int xsched_hint_deadline(const uint64_t *deadline_us)`.
///
/// # Safety
/// `deadline_us` must be null or point to a `uint64_t`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn xsched_hint_deadline(deadline_us: *const u64) -> c_int {
    static BEHIND: Behind = Behind::new(c"xsched_hint_deadline");
    // SAFETY: the caller's promise.
    let Ok(wanted) = deadline_us_of(unsafe { deadline_us.as_ref() }) else { return INVALID };
    ask(|| DEADLINE_NS.store(wanted.map_or(NO_DEADLINE, |us| u64::from(us) * 1_000), Ordering::Relaxed));
    // SAFETY: this function in another shim, with the caller's argument.
    unsafe { pass_on(&BEHIND, deadline_us) };
    DONE
}

/// The priority that is called so, such as `high`.
///
/// C: `int xsched_class_priority(const char *name, int *priority)`.
///
/// # Safety
/// `name` must be null or a C string, `priority` null or where an `int` can be written.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn xsched_class_priority(name: *const c_char, priority: *mut c_int) -> c_int {
    if name.is_null() || priority.is_null() {
        return INVALID;
    }
    // SAFETY: the caller promises a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(found) = name.to_str().ok().and_then(class_priority) else { return INVALID };
    // SAFETY: the caller's promise.
    unsafe { priority.write(found.into()) };
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_asks_for_goes_before_the_environment() {
        let environment =
            Settings { priority: Some(7), utilization: Some(30), deadline_us: None, ..Settings::default() };
        let hints = packet(&environment, Some(-100), None);
        assert_eq!((hints.priority, hints.utilization), (-100, 30));
        assert_eq!(hints.hints, Hello::PRIORITY | Hello::UTILIZATION);
        let hints = packet(&environment, None, Some(33_000_000));
        assert_eq!((hints.priority, hints.deadline_ns), (7, 33_000_000));
        assert_eq!(hints.hints, Hello::PRIORITY | Hello::UTILIZATION | Hello::DEADLINE);
        assert_eq!(packet(&Settings::default(), None, None).hints, 0);
    }

    #[test]
    fn what_is_no_hint_is_refused() {
        // SAFETY: references to local variables, C strings and null.
        unsafe {
            assert_eq!(xsched_hint_priority(&256), INVALID);
            assert_eq!(xsched_hint_deadline(&0), INVALID);
            assert_eq!(xsched_hint_priority(std::ptr::null()), DONE);
            let mut priority = 5;
            assert_eq!(xsched_class_priority(c"hgih".as_ptr(), &raw mut priority), INVALID);
            assert_eq!(xsched_class_priority(std::ptr::null(), &raw mut priority), INVALID);
            assert_eq!(priority, 5);
            assert_eq!(xsched_class_priority(c"high".as_ptr(), &raw mut priority), DONE);
            assert_eq!(priority, 100);
        }
    }
}
