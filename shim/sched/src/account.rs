//! A claim's use of the device: what it reports, within limits.
//!
//! ```text
//!            running           silent          running     report
//!   |--------------------|................|--------------|-------> time
//!        provisional +=                     provisional +=   becomes what was reported, within limits
//! ```
//!
//! A claim that is allowed to run is charged for all of that time until it reports its use; then the report counts. Two limits
//! bound a false report. A claim never used more than the time that has passed. And it used at least half of the time for which
//! it kept others out. The second limit applies over a longer time. It does not count time that others report to have used
//! meanwhile: their work from before may fill whole slices. So it costs an honest claim something in one case only: the claim
//! stays ready while the device is idle for more than half of the time. No other claim could use that time.
//!
//! Work that is still running when others are allowed is charged as measured. It is not cut at the end of the time for which the
//! claim was allowed.

use crate::Nanos;

/// A claim's account. Methods return changes of the charge, so that the caller can keep a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    settled: u64,
    /// Charged since the last report or settlement.
    provisional: u64,
    since: Nanos,
    /// Time for which it kept others out, and the settled charges of that time.
    held: u64,
    settled_meanwhile: u64,
    /// What the last report took back. It may have been used after all, and be part of the next report.
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

    /// The claim was ready and allowed to run. After `patience` of running time without a report it has used all of it.
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

    /// Time for which it kept others out and which no claim is known to have used.
    pub(crate) fn unused(&self) -> Nanos {
        Nanos(self.held) - Nanos(self.settled_meanwhile) - Nanos(self.provisional)
    }

    /// Other claims used this part of that time.
    pub(crate) fn was_filled(&mut self, time: Nanos) {
        self.held = self.held.saturating_sub(time.0);
    }

    /// The part of a report beyond the time for which it was allowed to run. Other claims were allowed then.
    pub(crate) fn ran_on(&self, now: Nanos, used: Nanos) -> Nanos {
        used.min(now - self.since) - Nanos(self.provisional) - Nanos(self.taken_back)
    }

    /// The claim reports its use. The lower limit applies once it has kept others out for `patience`.
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
    fn work_that_runs_on_while_others_are_allowed_is_charged() {
        let mut account = after_running(100, true);
        assert_eq!(account.reported(Nanos(150), Nanos(140), PATIENCE), 40);
    }

    #[test]
    fn use_that_is_reported_late_counts_for_the_time_before() {
        let mut account = after_running(100, true);
        account.reported(Nanos(100), Nanos(30), PATIENCE);
        assert_eq!(account.ran_on(Nanos(250), Nanos(70)), Nanos::ZERO);
        assert_eq!(account.ran_on(Nanos(250), Nanos(90)), Nanos(20));
        assert_eq!(account.ran_on(Nanos(250), Nanos(900)), Nanos(80), "no more than has passed");
    }

    /// The claim runs for 11 times 100 and reports `used` each time.
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
    fn a_claim_that_kept_others_out_is_charged_for_half_at_least() {
        assert_eq!(charged_in_the_long_run(true, 0), Nanos(550));
        assert_eq!(charged_in_the_long_run(true, 10), Nanos(550));
        assert_eq!(charged_in_the_long_run(true, 60), Nanos(660));
        assert_eq!(charged_in_the_long_run(false, 0), Nanos::ZERO, "it kept no other claim out");
    }

    #[test]
    fn no_claim_is_charged_for_more_than_has_passed() {
        let mut account = after_running(100, false);
        account.reported(Nanos(120), Nanos(u64::MAX), PATIENCE);
        assert_eq!(account.charged(), Nanos(120));
        account.reported(Nanos(120), Nanos(u64::MAX), PATIENCE);
        assert_eq!(account.charged(), Nanos(120));
    }

    #[test]
    fn a_claim_without_reports_is_charged_for_all_of_its_time() {
        let mut account = after_running(PATIENCE.0 + 1, true);
        account.reported(Nanos(PATIENCE.0 + 1), Nanos::ZERO, PATIENCE);
        assert_eq!(account.charged(), Nanos(PATIENCE.0 + 1));
    }
}
