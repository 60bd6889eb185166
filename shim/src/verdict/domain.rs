//! Scheduling domains: how a program or library declares its own calls.
//!
//! A library speaks for the calls that go through it, a program for the calling thread.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xsched_preload::fork::Renewable;
use xsched_protocol::wire::SchedulingDomain;

/// Domains of libraries, by path.
static LIBRARIES: Renewable<Mutex<HashMap<String, SchedulingDomain>>> = Renewable::new();

thread_local! {
    static THREAD: Cell<SchedulingDomain> = const { Cell::new(SchedulingDomain::Auto) };
}

fn libraries() -> MutexGuard<'static, HashMap<String, SchedulingDomain>> {
    LIBRARIES.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread's domain.
pub(crate) fn of_thread() -> SchedulingDomain {
    THREAD.try_with(Cell::get).unwrap_or(SchedulingDomain::Auto)
}

/// A library's domain.
pub(crate) fn of_library(path: &str) -> SchedulingDomain {
    let domain = LIBRARIES.existing().and_then(|_| libraries().get(path).copied());
    domain.unwrap_or(SchedulingDomain::Auto)
}

/// Whether any library has ever set its domain.
pub(crate) fn any_library_has_domain() -> bool {
    LIBRARIES.existing().is_some()
}

/// The domains of all libraries, for a new controller.
pub(crate) fn of_libraries() -> Vec<(String, SchedulingDomain)> {
    if LIBRARIES.existing().is_none() {
        return Vec::new();
    }
    libraries().iter().map(|(path, &domain)| (path.clone(), domain)).collect()
}

/// In a forked child: earlier domains stay, unless another thread was just setting one.
pub(crate) fn renew_after_fork() {
    if LIBRARIES.existing().is_some_and(|libraries| libraries.try_lock().is_err()) {
        LIBRARIES.renew();
    }
}

/// Sets the calling thread's domain.
pub(crate) fn set_of_thread(domain: SchedulingDomain) {
    let _ = THREAD.try_with(|thread| thread.set(domain));
}

/// Sets a library's domain.
pub(crate) fn set_of_library(path: &str, domain: SchedulingDomain) {
    libraries().insert(path.to_owned(), domain);
}
