//! What a queue has used, as far as it is believed.
//!
//! ```text
//!            running           silent          running     report
//!   |--------------------|................|--------------|-------> time
//!        provisional +=                     provisional +=   becomes what was reported, within limits
//! ```
//!
//! A queue that is allowed to run is charged for all of that time until it reports what its work took; then the report
//! counts. It may be a lie, so it has limits: while a queue kept others out, it used at least half of the time,
//! whatever it says; and it never used more than has passed. The first limit costs an honest queue something only if it
//! stays ready with the device idle for more than half of the time, which nobody else could use then. Work that is still
//! running when others have taken over is charged as measured, not cut at the time that the queue was allowed.

use crate::Nanos;

/// A queue's account. Changes are returned, so that whoever keeps the sum can follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    settled: u64,
    provisional: u64,
    /// The part of `provisional` for which others were kept out.
    held: u64,
    since: Nanos,
}

impl Account {
    pub(crate) fn new(now: Nanos) -> Self {
        Self { settled: 0, provisional: 0, held: 0, since: now }
    }

    /// Device time that it is charged for.
    pub(crate) fn charged(&self) -> Nanos {
        Nanos(self.settled.saturating_add(self.provisional))
    }

    /// It was ready and allowed to run.
    pub(crate) fn ran(&mut self, now: Nanos, time: Nanos, kept_others_out: bool, patience: Nanos) -> i64 {
        self.provisional = self.provisional.saturating_add(time.0);
        if kept_others_out {
            self.held = self.held.saturating_add(time.0);
        }
        if self.provisional > patience.0 {
            self.settle(now, self.provisional);
        }
        time.0 as i64
    }

    /// It says what it used.
    pub(crate) fn reported(&mut self, now: Nanos, used: Nanos) -> i64 {
        let least = self.held / 2;
        let most = (now - self.since).0.max(least);
        let before = self.provisional;
        let charge = used.0.clamp(least, most);
        self.settle(now, charge);
        charge.wrapping_sub(before) as i64
    }

    fn settle(&mut self, now: Nanos, charge: u64) {
        *self = Self { settled: self.settled.saturating_add(charge), provisional: 0, held: 0, since: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Nanos = Nanos(1_000);

    fn after_running(time: u64, kept_others_out: bool) -> Account {
        let mut account = Account::new(Nanos(0));
        account.ran(Nanos(time), Nanos(time), kept_others_out, PATIENCE);
        account
    }

    #[test]
    fn a_report_replaces_what_was_assumed() {
        let mut account = after_running(100, true);
        assert_eq!(account.charged(), Nanos(100));
        assert_eq!(account.reported(Nanos(100), Nanos(70)), -30);
        assert_eq!(account.charged(), Nanos(70));
    }

    #[test]
    fn work_that_ran_on_while_others_were_allowed_counts() {
        let mut account = after_running(100, true);
        assert_eq!(account.reported(Nanos(150), Nanos(140)), 40);
    }

    #[test]
    fn who_kept_others_out_has_used_half_of_it_at_least() {
        let mut account = after_running(100, true);
        account.reported(Nanos(100), Nanos::ZERO);
        assert_eq!(account.charged(), Nanos(50));
        let mut account = after_running(100, false);
        account.reported(Nanos(100), Nanos::ZERO);
        assert_eq!(account.charged(), Nanos::ZERO);
    }

    #[test]
    fn nobody_has_used_more_than_has_passed() {
        let mut account = after_running(100, false);
        account.reported(Nanos(120), Nanos(u64::MAX));
        assert_eq!(account.charged(), Nanos(120));
        account.reported(Nanos(120), Nanos(u64::MAX));
        assert_eq!(account.charged(), Nanos(120));
    }

    #[test]
    fn who_is_silent_for_long_has_used_it_all() {
        let mut account = after_running(PATIENCE.0 + 1, true);
        account.reported(Nanos(PATIENCE.0 + 1), Nanos::ZERO);
        assert_eq!(account.charged(), Nanos(PATIENCE.0 + 1));
    }
}
