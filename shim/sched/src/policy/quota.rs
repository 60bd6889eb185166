//! Quota over a window, like `cpu.max` of cgroups: in each window a process has its device time before others, and no more while
//! these have work.
//!
//! Of several processes with quota left, the one whose window ends first has the device. So each gets its time if their quotas
//! come to no more than the whole. Processes without a quota share what is left, as under `fair`. One that has used up its quota
//! stands behind them until its window ends. Unlike `cpu.max`, it gets what no other process wants: no device is idle while there
//! is work.
//!
//! A window begins with the first work after the last one has ended, so quotas that were not used are not owed. What a process used
//! beyond its quota while others waited, because its last kernel was not over, counts in the next window.

use super::order::{Order, Standing};
use super::{LOOK_EVERY, Policy, View};
use crate::claim::Process;
use crate::ranks::Ranks;
use crate::{Nanos, Quota};

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    order: Order,
    /// By process.
    of_processes: Vec<Option<Quota>>,
    windows: Vec<Window>,
    /// How many processes had work at the last look.
    ready: usize,
}

/// The present window of a process, or its last one.
#[derive(Debug, Default)]
struct Window {
    /// The quota that it is for. None: there is no window yet.
    quota: Option<Quota>,
    ends: Nanos,
    used: Nanos,
    /// The part of [`Process::charged`] that has been looked at.
    counted: Nanos,
}

impl Policy for Quotas {
    fn joined(&mut self) {
        self.order.joined();
        self.windows.push(Window::default());
    }

    fn left(&mut self, index: usize) {
        self.order.left(index);
        self.windows.swap_remove(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if view.altered {
            self.find_quotas(view);
        }
        let was_contended = self.ready > 1;
        self.ready = 0;
        for (index, process) in view.processes.iter().enumerate() {
            self.ready += usize::from(process.ready > 0);
            let standing = match self.of_processes[index] {
                Some(quota) => self.windows[index].follow(quota, process, view.now, was_contended),
                None => Standing::Sharing,
            };
            self.order.set_standing(index, standing);
        }
        let again = self.order.rank(view, 1, |attributes| attributes.quota.is_some(), ranks);
        again.into_iter().chain(self.again(view)).min()
    }
}

impl Quotas {
    /// A process with several claims has the quota of the first that has one.
    fn find_quotas(&mut self, view: &View<'_>) {
        self.of_processes.clear();
        self.of_processes.resize(view.processes.len(), None);
        for claim in view.claims {
            let quota = &mut self.of_processes[claim.process];
            *quota = quota.or(claim.attributes.quota.map(in_range));
        }
    }

    /// When a window ends, or the quota of the process in front.
    fn again(&self, view: &View<'_>) -> Option<Nanos> {
        let is_counted =
            |index: &usize| view.processes[*index].ready > 0 && self.of_processes[*index].is_some();
        let ends = (0..self.windows.len()).filter(is_counted).map(|index| self.windows[index].ends);
        let used_up = self.order.in_front().filter(|_| !view.has_starvation_slice).filter_map(|index| {
            let left = self.of_processes[index]?.time - self.windows[index].used;
            Some(view.now + left.max(LOOK_EVERY))
        });
        ends.chain(used_up).filter(|at| *at > view.now).min()
    }
}

impl Window {
    /// Takes in what the process has used since the last look, and says where it is to stand.
    fn follow(&mut self, quota: Quota, process: &Process, now: Nanos, was_contended: bool) -> Standing {
        let change = process.charged.0.wrapping_sub(self.counted.0) as i64;
        self.counted = process.charged;
        if self.quota != Some(quota) {
            // It is new under this policy, or has another quota. A window of the old one may last for much longer.
            (self.quota, self.ends, self.used) = (Some(quota), Nanos::ZERO, Nanos::ZERO);
        } else if self.used < quota.time || was_contended {
            self.used = Nanos(self.used.0.saturating_add_signed(change));
        }
        let Some(began) = process.requests.began else { return Standing::Sharing };
        if now >= self.ends {
            self.begin(quota, began, now);
        }
        if self.used < quota.time { Standing::Urgent(self.ends.0) } else { Standing::Behind }
    }

    /// The next window begins: right after the last one, if there was work all the time.
    fn begin(&mut self, quota: Quota, began: Nanos, now: Nanos) {
        if self.ends.is_zero() || began > self.ends {
            (self.ends, self.used) = (now + quota.window, Nanos::ZERO);
            return;
        }
        let windows = (now - self.ends).0 / quota.window.0 + 1;
        self.ends += quota.window.times(windows);
        self.used = (self.used - quota.time.times(windows)).min(quota.time);
    }
}

/// The nearest quota that can be kept.
fn in_range(quota: Quota) -> Quota {
    let window = quota.window.clamp(Quota::WINDOW_LEAST, Quota::WINDOW_MOST);
    Quota { time: quota.time.clamp(Nanos(1), window), window }
}
