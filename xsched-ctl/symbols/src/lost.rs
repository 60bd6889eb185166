//! Lost events: when what is known of processes is to be read again.
//!
//! Any process can cause more events than a ring holds: it maps code again and again. Reading all processes takes a second where there
//! are a thousand. So it is done once for all events that were lost since the last time, and for a tenth of the time at most.

use std::time::{Duration, Instant};

/// How long nothing is read again, in terms of how long the last time took.
const REST: u32 = 10;

/// Events that were lost, and have not been made up for.
#[derive(Debug, Default)]
pub struct LostEvents {
    are_any: bool,
    rests_until: Option<Instant>,
}

impl LostEvents {
    /// Some were lost.
    pub fn note(&mut self) {
        self.are_any = true;
    }

    /// Whether processes are to be read again now. The caller does it, and says how long that took.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let rests = self.rests_until.is_some_and(|until| now < until);
        !rests && std::mem::take(&mut self.are_any)
    }

    /// Processes were read again.
    pub fn made_up(&mut self, took: Duration) {
        self.rests_until = Some(Instant::now() + REST * took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lost_events_cost_one_reading_and_no_more_than_a_tenth_of_the_time() {
        let (mut lost, now) = (LostEvents::default(), Instant::now());
        assert!(!lost.take_due(now));
        lost.note();
        lost.note();
        assert!(lost.take_due(now) && !lost.take_due(now));
        lost.made_up(Duration::from_secs(1));
        lost.note();
        assert!(!lost.take_due(now + Duration::from_secs(9)));
        assert!(lost.take_due(now + Duration::from_secs(20)), "it is not forgotten");
    }
}
