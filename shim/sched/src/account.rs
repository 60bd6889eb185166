//! What a queue has used, as far as it is believed.
//!
//! ```text
//!            running           silent          running     report
//!   |--------------------|................|--------------|-------> time
//!        provisional +=                     provisional +=   becomes what was reported, within limits
//! ```
//!
//! A queue that is allowed to run is charged for all of that time until it reports what its work took; then the report
//! counts. It may be a lie, so it has limits: it never used more than has passed; and of the time for which it kept others
//! out it used at least half, whatever it says. The second limit is looked at over a longer time, and time that others say they
//! used meanwhile is not part of it: work that was launched before may fill whole slices. So it costs an honest queue something
//! only if it stays ready with the device idle for more than half of the time, which nobody else could use then.
//!
//! Work that is still running when others have taken over is charged as measured, not cut at the time that the queue was
//! allowed.

use crate::Nanos;

/// A queue's account. Changes are returned, so that whoever keeps the sum can follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    settled: u64,
    /// Charged since the last report or settlement.
    provisional: u64,
    since: Nanos,
    /// Time for which it kept others out, and what it was charged for by settlement meanwhile.
    held: u64,
    settled_meanwhile: u64,
    /// What was taken back with the last report: it may have been used all the same, and be part of the next one.
    taken_back: u64,
}

impl Account {
    pub(crate) fn new(now: Nanos) -> Self {
        Self { settled: 0, provisional: 0, since: now, held: 0, settled_meanwhile: 0, taken_back: 0 }
    }

    /// Device time that it is charged for.
    pub(crate) fn charged(&self) -> Nanos {
        Nanos(self.settled.saturating_add(self.provisional))
    }

    /// It was ready and allowed to run. It may be silent for so much running time, then it has used all of it.
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

    /// Time for which it kept others out, as far as nobody is known to have used it.
    pub(crate) fn unused(&self) -> Nanos {
        Nanos(self.held) - Nanos(self.settled_meanwhile) - Nanos(self.provisional)
    }

    /// Others used so much of that.
    pub(crate) fn was_filled(&mut self, time: Nanos) {
        self.held = self.held.saturating_sub(time.0);
    }

    /// What a report says beyond the time for which it was allowed to run: others were, then.
    pub(crate) fn ran_on(&self, now: Nanos, used: Nanos) -> Nanos {
        used.min(now - self.since) - Nanos(self.provisional) - Nanos(self.taken_back)
    }

    /// It says what it used. The least that it is believed is looked at when it has kept others out for `patience`.
    pub(crate) fn reported(&mut self, now: Nanos, used: Nanos, patience: Nanos) -> i64 {
        let before = self.charged().0;
        let used = used.0.min((now - self.since).0);
        self.taken_back = self.provisional.saturating_sub(used);
        self.settle(now, used);
        if self.held > patience.0 {
            let least = self.held / 2;
            self.settled = self.settled.saturating_add(least.saturating_sub(self.settled_meanwhile));
            (self.held, self.settled_meanwhile) = (0, 0);
        }
        self.charged().0.wrapping_sub(before) as i64
    }

    fn settle(&mut self, now: Nanos, charge: u64) {
        self.settled = self.settled.saturating_add(charge);
        self.settled_meanwhile = self.settled_meanwhile.saturating_add(charge);
        self.provisional = 0;
        self.since = now;
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
        assert_eq!(account.reported(Nanos(100), Nanos(70), PATIENCE), -30);
        assert_eq!(account.charged(), Nanos(70));
    }

    #[test]
    fn work_that_ran_on_while_others_were_allowed_counts() {
        let mut account = after_running(100, true);
        assert_eq!(account.reported(Nanos(150), Nanos(140), PATIENCE), 40);
    }

    #[test]
    fn what_is_said_a_report_later_ran_when_it_was_allowed() {
        let mut account = after_running(100, true);
        account.reported(Nanos(100), Nanos(30), PATIENCE);
        assert_eq!(account.ran_on(Nanos(250), Nanos(70)), Nanos::ZERO);
        assert_eq!(account.ran_on(Nanos(250), Nanos(90)), Nanos(20));
        assert_eq!(account.ran_on(Nanos(250), Nanos(900)), Nanos(80), "no more than has passed");
    }

    /// It runs for 11 times 100 and says each time that it has used so much.
    fn charged_in_the_long_run(kept_others_out: bool, used: u64) -> Nanos {
        let mut account = Account::new(Nanos(0));
        for round in 1..=11 {
            let now = Nanos(round * 100);
            account.ran(now, Nanos(100), kept_others_out, PATIENCE);
            account.reported(now, Nanos(used), PATIENCE);
        }
        account.charged()
    }

    #[test]
    fn who_kept_others_out_has_used_half_of_it_at_least() {
        assert_eq!(charged_in_the_long_run(true, 0), Nanos(550));
        assert_eq!(charged_in_the_long_run(true, 10), Nanos(550));
        assert_eq!(charged_in_the_long_run(true, 60), Nanos(660));
        assert_eq!(charged_in_the_long_run(false, 0), Nanos::ZERO, "it was in nobody's way");
    }

    #[test]
    fn nobody_has_used_more_than_has_passed() {
        let mut account = after_running(100, false);
        account.reported(Nanos(120), Nanos(u64::MAX), PATIENCE);
        assert_eq!(account.charged(), Nanos(120));
        account.reported(Nanos(120), Nanos(u64::MAX), PATIENCE);
        assert_eq!(account.charged(), Nanos(120));
    }

    #[test]
    fn who_is_silent_for_long_has_used_it_all() {
        let mut account = after_running(PATIENCE.0 + 1, true);
        account.reported(Nanos(PATIENCE.0 + 1), Nanos::ZERO, PATIENCE);
        assert_eq!(account.charged(), Nanos(PATIENCE.0 + 1));
    }
}
