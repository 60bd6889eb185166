//! By CPU nice value: what users say of a process to the operating system holds for the device as well.
//!
//! ```text
//!   -20 to -11  first, like class `realtime`
//!   -10 to -1   like `high`
//!     0         like `normal`; also processes whose nice value is not known
//!     1 to 19   last, like `low`
//! ```
//!
//! Processes of a class share the device by weights as the kernel shares a processor: a step of the nice value is a fourth more or
//! less. The priorities and weights of the controller have no effect.

use super::virtual_time::{Share, VirtualTime};
use super::{Policy, View};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct Nice {
    time: VirtualTime,
    shares: Vec<Share>,
}

impl Policy for Nice {
    fn joined(&mut self) {
        self.time.joined();
    }

    fn left(&mut self, index: usize) {
        self.time.left(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if view.altered {
            self.shares.clear();
            self.shares.resize(view.processes.len(), Share { group: class(0), weight: weight(0) });
            for claim in view.claims {
                let nice = claim.attributes.nice;
                self.shares[claim.process] = Share { group: class(nice), weight: weight(nice) };
            }
        }
        self.time.rank(view, &self.shares, ranks)
    }
}

/// The class of a nice value: smaller goes first.
fn class(nice: i8) -> u16 {
    match nice {
        ..=-11 => 0,
        -10..=-1 => 1,
        0 => 2,
        1.. => 3,
    }
}

/// A fourth more for each step down.
fn weight(nice: i8) -> u32 {
    let steps = i32::from(nice).clamp(-20, 19);
    (1024.0 * 1.25_f64.powi(-steps)).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_nice_value_is_a_fourth() {
        assert_eq!([-20, -1, 0, 1, 19].map(weight), [88_818, 1_280, 1_024, 819, 15]);
        assert_eq!([-20, -11, -10, -1, 0, 1, 19].map(class), [0, 0, 1, 1, 2, 3, 3]);
    }
}
