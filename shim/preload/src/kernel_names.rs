//! Numbers for the names of kernels, where rules use names. The controller gets a name before its number is used.

use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use crate::fork::Renewable;
use crate::told::{self, Untold};

/// Further kernels have no name as far as rules are concerned.
const NAMES_MAX: usize = 1 << 16;

static NUMBERS: Renewable<Mutex<HashMap<String, u32>>> = Renewable::new();

fn numbers() -> MutexGuard<'static, HashMap<String, u32>> {
    NUMBERS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a kernel's name; None if there are too many.
///
/// # Errors
/// The controller could not be told of a new one.
pub fn number(name: &str) -> Result<Option<u32>, Untold> {
    let mut numbers = numbers();
    if let Some(&number) = numbers.get(name) {
        return Ok(Some(number));
    }
    if numbers.len() >= NAMES_MAX {
        return Ok(None);
    }
    let number = numbers.len() as u32;
    numbers.insert(name.to_owned(), number);
    // Still under the lock: no thread uses the number before.
    told::kernel(number, name).map(|()| Some(number))
}

/// All names, for a new controller.
pub fn all() -> Vec<(u32, String)> {
    if NUMBERS.existing().is_none() {
        return Vec::new();
    }
    numbers().iter().map(|(name, &number)| (number, name.clone())).collect()
}

/// In a forked child.
pub fn renew_after_fork() {
    NUMBERS.renew();
}
