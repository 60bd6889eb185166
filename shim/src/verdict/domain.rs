//! Scheduling domains: what a program or library says of its own calls.
//!
//! A library speaks for the calls that go through it, a program for the calling thread.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xsched_protocol::wire::SchedulingDomain;

use crate::ground::fork::Renewable;

/// What libraries have said, by path.
static LIBRARIES: Renewable<Mutex<HashMap<String, SchedulingDomain>>> = Renewable::new();

thread_local! {
    static THREAD: Cell<SchedulingDomain> = const { Cell::new(SchedulingDomain::Auto) };
}

fn libraries() -> MutexGuard<'static, HashMap<String, SchedulingDomain>> {
    LIBRARIES.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the calling thread has said.
pub(crate) fn of_thread() -> SchedulingDomain {
    THREAD.try_with(Cell::get).unwrap_or(SchedulingDomain::Auto)
}

/// What a library has said.
pub(crate) fn of_library(path: &str) -> SchedulingDomain {
    let domain = LIBRARIES.existing().and_then(|_| libraries().get(path).copied());
    domain.unwrap_or(SchedulingDomain::Auto)
}

/// Whether any library has said anything.
pub(crate) fn has_any_library_spoken() -> bool {
    LIBRARIES.existing().is_some()
}

/// What libraries have said, for a controller that is new.
pub(crate) fn of_libraries() -> Vec<(String, SchedulingDomain)> {
    if LIBRARIES.existing().is_none() {
        return Vec::new();
    }
    libraries().iter().map(|(path, &domain)| (path.clone(), domain)).collect()
}

/// In a forked child: what was said before the fork holds, unless another thread was just saying something.
pub(crate) fn begin_afresh() {
    if LIBRARIES.existing().is_some_and(|libraries| libraries.try_lock().is_err()) {
        LIBRARIES.renew();
    }
}

/// The calling thread says what its calls are, from now on.
pub(crate) fn set_of_thread(domain: SchedulingDomain) {
    let _ = THREAD.try_with(|thread| thread.set(domain));
}

/// A library says what its calls are, from now on.
pub(crate) fn set_of_library(path: &str, domain: SchedulingDomain) {
    libraries().insert(path.to_owned(), domain);
}
