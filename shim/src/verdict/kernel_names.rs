//! Numbers for the names of kernels, where rules use names. The controller gets a name before its number is used.

use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use xsched_preload::fork::Renewable;

use crate::kernels;
use crate::runtime::stopped::Stopped;
use crate::verdict::connection;

/// Further kernels have no name as far as rules are concerned.
const NAMES_MAX: usize = 1 << 16;

static NUMBERS: Renewable<Mutex<HashMap<String, u32>>> = Renewable::new();

fn numbers() -> MutexGuard<'static, HashMap<String, u32>> {
    NUMBERS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of the kernel that a call launches, if it launches one whose name is known, and its number.
pub(super) fn of(call: &Stopped<'_>) -> Option<(u32, String)> {
    let copy = call.target.copy?.index();
    let name = kernels::name(copy, call.kernel_handle()?)?;
    let mut numbers = numbers();
    let known = numbers.get(&name).copied();
    let number = match known {
        Some(number) => number,
        None if numbers.len() >= NAMES_MAX => return None,
        None => {
            let number = numbers.len() as u32;
            numbers.insert(name.clone(), number);
            // Still under the lock: no thread uses the number before.
            connection::send_kernel(number, &name);
            number
        }
    };
    Some((number, name))
}

/// All names, for a new controller.
pub(crate) fn all() -> Vec<(u32, String)> {
    if NUMBERS.existing().is_none() {
        return Vec::new();
    }
    numbers().iter().map(|(name, &number)| (number, name.clone())).collect()
}

/// In a forked child.
pub(super) fn renew_after_fork() {
    NUMBERS.renew();
}
