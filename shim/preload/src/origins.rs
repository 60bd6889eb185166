//! Numbers for the libraries that calls belong to, small enough to be part of each command: device time is accounted
//! by them.
//!
//! Where the controller's programs decide, a library is identified by the controller's number for it, which another
//! run of the controller may give to another library. Otherwise it is identified by the file name of the immediate
//! caller. Both are forgotten when another controller connects.

use std::sync::{Mutex, MutexGuard, PoisonError};

use xsched_xqueue::{Library, Origin};

use crate::fork::Renewable;

/// All further libraries. No larger number is given: the cache has only 6 bits for it.
const OTHERS: Origin = Origin::OTHERS;

/// Libraries by number, from 1 on.
#[derive(Default)]
struct Numbers(Vec<Library>);

static NUMBERS: Renewable<Mutex<Numbers>> = Renewable::new();

fn numbers() -> MutexGuard<'static, Numbers> {
    NUMBERS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child, which has no controller yet.
pub fn renew_after_fork() {
    NUMBERS.renew();
}

/// Makes all numbers meaningless.
pub fn forget() {
    numbers().0.clear();
}

/// The number of a library.
pub fn number(library: Library) -> Origin {
    numbers().number(library)
}

/// All libraries that have a number, with it.
pub fn all() -> Vec<(Origin, Library)> {
    let numbers = numbers();
    let origins = (1..).map(Origin);
    origins.zip(numbers.0.iter().cloned()).collect()
}

impl Numbers {
    fn number(&mut self, library: Library) -> Origin {
        let index = self.0.iter().position(|known| *known == library).unwrap_or_else(|| {
            if self.0.len() + 1 < usize::from(OTHERS.0) {
                self.0.push(library);
                self.0.len() - 1
            } else {
                usize::from(OTHERS.0) - 1
            }
        });
        Origin(index as u8 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_beyond_the_limit_share_a_number() {
        let mut numbers = Numbers::default();
        let own = |index: u32| Library::Own(format!("lib{index}.so"));
        for round in 0..2 {
            for index in 1..=62 {
                assert_eq!(numbers.number(own(index)), Origin(index as u8), "round {round}");
            }
            assert_eq!(numbers.number(own(63 + round)), OTHERS);
            assert_eq!(numbers.number(Library::Controllers(1)), OTHERS);
        }
        assert_eq!(numbers.0.len(), 62);
    }
}
