//! The requests of a process, as a scheduler sees them: one begins when the process gets work, and ends when it has none.
//!
//! A program that always has more work has one request without an end. A pause shorter than [`Settings::linger`] does not end a
//! request.
//!
//! [`Settings::linger`]: crate::Settings::linger

use std::collections::VecDeque;

use crate::Nanos;

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) ended: Nanos,
    pub(crate) latency: Nanos,
}

/// The requests of a process.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// When the present one began; `None`: there is no work.
    pub(crate) began: Option<Nanos>,
    /// How many have ended so far.
    pub(crate) ended: u64,
    /// The latest ones, the oldest first.
    latest: VecDeque<Request>,
    /// The device time that a request usually takes, or somewhat more.
    pub(crate) usual_work: Nanos,
    /// The process's charge when the latest one began.
    charged_before: Nanos,
}

/// How many requests are remembered: of a hundred, one is beyond the 99th percentile.
const REMEMBERED: usize = 128;

impl Requests {
    /// The process has work. `charged` is its charge so far.
    pub(crate) fn begin(&mut self, now: Nanos, charged: Nanos) {
        if self.ended > 0 {
            // Only now most reports of the last one's use have come.
            let work = charged - self.charged_before;
            self.usual_work = work.max(self.usual_work - self.usual_work / 16);
        }
        self.charged_before = charged;
        self.began = Some(now);
    }

    /// The process has no work since `now`, and was ready for another `linger` before that.
    pub(crate) fn end(&mut self, now: Nanos, linger: Nanos) {
        let Some(began) = self.began.take() else { return };
        self.ended += 1;
        if self.latest.len() == REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back(Request { ended: now, latency: now - began - linger });
    }

    /// The one that ended last.
    pub(crate) fn last(&self) -> Option<&Request> {
        self.latest.back()
    }

    /// A percentile of the latencies of those that are remembered.
    pub(crate) fn latency(&self, per_mille: u16) -> Option<Nanos> {
        percentile(&mut self.latest.iter().map(|request| request.latency).collect::<Vec<_>>(), per_mille)
    }
}

/// A percentile of some times, whose order is lost.
pub(crate) fn percentile(times: &mut [Nanos], per_mille: u16) -> Option<Nanos> {
    let last = times.len().checked_sub(1)?;
    let index = (times.len() * usize::from(per_mille)).div_ceil(1_000).saturating_sub(1).min(last);
    Some(*times.select_nth_unstable(index).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_time_that_so_many_do_not_exceed() {
        let of =
            |count: u64, per_mille| percentile(&mut (1..=count).map(Nanos).collect::<Vec<_>>(), per_mille);
        assert_eq!(of(0, 990), None);
        assert_eq!(of(7, 990), Some(Nanos(7)));
        assert_eq!(of(100, 990), Some(Nanos(99)));
        assert_eq!(of(100, 500), Some(Nanos(50)));
    }

    #[test]
    fn the_latest_requests_are_remembered() {
        let mut requests = Requests::default();
        for second in 0..200 {
            let now = Nanos::from_secs(second);
            requests.begin(now, Nanos(second * 7));
            requests.end(now + Nanos(1_000 + second), Nanos(1_000));
        }
        assert_eq!((requests.ended, requests.latest.len()), (200, REMEMBERED));
        assert_eq!(requests.last().map(|last| last.latency), Some(Nanos(199)));
        assert_eq!(requests.usual_work, Nanos(7));
        assert_eq!(requests.latency(500), Some(Nanos(72 + 63)));
    }
}
