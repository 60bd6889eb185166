//! Green contexts: parts of a device, each with the device's primary context behind it.
//!
//! A green context may be current on one thread at a time, and the driver does not synchronise its use by several. So the shim never
//! makes one current: it works through the primary context, in which handles of streams and events of a green context mean the
//! same. The null stream is another one there, so only a thread that has the green context as its current one can name it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xsched_preload::fork::Renewable;

use crate::driver::Context;

/// Primary contexts by green context.
static GREEN: Renewable<Mutex<HashMap<Context, Context>>> = Renewable::new();

fn lock(green: &Mutex<HashMap<Context, Context>>) -> MutexGuard<'_, HashMap<Context, Context>> {
    green.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A green context exists.
pub(crate) fn note(green: Context, primary: Context) {
    lock(GREEN.get()).insert(green, primary);
}

/// A green context is gone, or another context has its address.
pub(crate) fn forget(context: Context) {
    if let Some(known) = GREEN.existing() {
        lock(known).remove(&context);
    }
}

/// The context through which the shim works with a context's streams: for a green one, its device's primary one.
pub(crate) fn base(context: Context) -> Context {
    // Most processes have none.
    GREEN.existing().and_then(|known| lock(known).get(&context).copied()).unwrap_or(context)
}

/// The green contexts of a primary one.
pub(crate) fn of_primary(primary: Context) -> Vec<Context> {
    let Some(known) = GREEN.existing() else { return Vec::new() };
    lock(known).iter().filter(|(_, of)| **of == primary).map(|(green, _)| *green).collect()
}

/// In a forked child, which has none.
pub(crate) fn renew_after_fork() {
    GREEN.renew();
}
