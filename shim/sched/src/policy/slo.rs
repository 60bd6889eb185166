//! SLO feedback: a process with an SLO gets as much of the device as keeps the latency of its requests below the SLO, and the others
//! get the rest.
//!
//! ```text
//!   a request begins                          it comes before the others          it ends
//!   |------------------- grace ---------------|---------- what it takes ----------|
//!   | others go first, if they have work      |                                   |
//!   |<------------------------------- latency, to be the SLO ---------------------->|
//! ```
//!
//! The *grace* is how long the others go first after a request has begun. It is the SLO less what requests take by themselves:
//! the SLO's percentile of recent latencies, without the time behind others. A request that takes longer than before shortens the
//! grace of the next one. A shorter one lengthens it only when no longer one is recent. Late requests shorten it further, until
//! just as many are late as may be. If the SLO cannot be kept, there is no grace.
//!
//! A request that is over its grace goes before all others, of several the one that is due first. While the others have no work,
//! nothing is held back. A process that always has work has no requests that end: its SLO is missed, and it comes first, up to the
//! bound on waiting.

use std::collections::VecDeque;

use super::order::{Order, Standing};
use super::{Policy, View};
use crate::claim::Process;
use crate::ranks::Ranks;
use crate::requests::percentile;
use crate::{Nanos, Slo};

#[derive(Debug, Default)]
pub(crate) struct LatencyTargets {
    order: Order,
    /// By process.
    slos: Vec<Option<Slo>>,
    members: Vec<Member>,
    /// Kept for its memory.
    sorted: Vec<Nanos>,
    /// The time of the last look.
    looked: Nanos,
}

/// A process with an SLO.
#[derive(Debug, Default)]
struct Member {
    slo: Option<Slo>,
    /// How many of its requests have been looked at.
    ended: u64,
    /// When the present one began; `None`: there is none.
    began: Option<Nanos>,
    grace: Nanos,
    /// It stands behind others for now.
    is_behind: bool,
    /// For how long its request has waited so, and [`Process::allowed`] at the last look.
    held: Nanos,
    allowed: Nanos,
    /// What the grace is shorter by, because more requests than allowed were late.
    margin: Nanos,
    /// When requests ended and what they took beside that.
    took: VecDeque<(Nanos, Nanos)>,
}

/// How many requests tell what the next one will take: at most this many. Those that ended before `RECENT` count only if there
/// are too few others.
const REQUESTS_MOST: usize = 128;
const REQUESTS_LEAST: usize = 16;
const RECENT: Nanos = Nanos::from_secs(1);

/// By which part of the SLO a late request lengthens the margin.
const MARGIN_STEP: u64 = 50;

impl Policy for LatencyTargets {
    fn joined(&mut self) {
        self.order.joined();
        self.members.push(Member::default());
    }

    fn left(&mut self, index: usize) {
        self.order.left(index);
        self.members.swap_remove(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if view.altered {
            self.find_slos(view);
        }
        let time = view.now - std::mem::replace(&mut self.looked, view.now);
        for (index, member) in self.members.iter_mut().enumerate() {
            let standing = match member.slo {
                Some(slo) => member.follow(slo, &view.processes[index], view.now, time, &mut self.sorted),
                None => Standing::Sharing,
            };
            self.order.set_standing(index, standing);
        }
        let again = self.order.rank(view, 1, |attributes| attributes.slo.is_some(), ranks);
        let over = self.members.iter().filter_map(Member::grace_ends);
        again.into_iter().chain(over.filter(|at| *at > view.now)).min()
    }
}

impl LatencyTargets {
    /// A process with several claims has the shortest latency of them.
    fn find_slos(&mut self, view: &View<'_>) {
        self.slos.clear();
        self.slos.resize(view.processes.len(), None);
        for claim in view.claims {
            let both = self.slos[claim.process].into_iter().chain(claim.attributes.slo);
            self.slos[claim.process] = both.min_by_key(|slo| slo.latency);
        }
        for (member, slo) in self.members.iter_mut().zip(&self.slos) {
            if member.slo != *slo {
                (member.slo, member.grace, member.margin) = (*slo, Nanos::ZERO, Nanos::ZERO);
            }
        }
    }
}

impl Member {
    /// Takes in what has happened since the last look, `time` ago, and says where the process is to stand.
    fn follow(
        &mut self,
        slo: Slo,
        process: &Process,
        now: Nanos,
        time: Nanos,
        sorted: &mut Vec<Nanos>,
    ) -> Standing {
        let allowed = process.allowed - std::mem::replace(&mut self.allowed, process.allowed);
        if self.is_behind {
            self.held += time - allowed;
        }
        if self.ended != process.requests.ended {
            self.ended = process.requests.ended;
            self.learn(slo, process, now, sorted);
        }
        if self.began != process.requests.began {
            (self.began, self.held) = (process.requests.began, Nanos::ZERO);
        }
        let Some(began) = self.began else {
            self.is_behind = false;
            return Standing::Sharing;
        };
        self.is_behind = now < began + self.grace;
        if self.is_behind { Standing::Behind } else { Standing::Urgent((began + slo.latency).0) }
    }

    /// A request has ended: learns from it how long the next one may stand behind others.
    fn learn(&mut self, slo: Slo, process: &Process, now: Nanos, sorted: &mut Vec<Nanos>) {
        let Some(last) = process.requests.last() else { return };
        self.took.push_back((last.ended, last.latency - self.held));
        let is_old = |(ended, _): &(Nanos, Nanos)| *ended + RECENT < now;
        while self.took.len() > REQUESTS_MOST
            || (self.took.len() > REQUESTS_LEAST && self.took.front().is_some_and(is_old))
        {
            self.took.pop_front();
        }
        sorted.clear();
        sorted.extend(self.took.iter().map(|(_, took)| *took));
        let takes = percentile(sorted, slo.per_mille).unwrap_or_default();
        // A few requests tell little.
        let known = self.took.len().min(REQUESTS_LEAST) as u64;
        self.correct(slo, last.latency > slo.latency);
        self.grace = (slo.latency - takes - self.margin).times(known) / REQUESTS_LEAST as u64;
    }

    /// In the long run the margin stays where just as many requests are late as may be.
    fn correct(&mut self, slo: Slo, is_late: bool) {
        let step = slo.latency / MARGIN_STEP;
        let per_mille = u64::from(slo.per_mille.min(1_000));
        self.margin = if is_late {
            (self.margin + step.times(per_mille) / 1_000).min(slo.latency / 4)
        } else {
            self.margin - step.times(1_000 - per_mille) / 1_000
        };
    }

    /// When its request comes before the others, if it does not yet.
    fn grace_ends(&self) -> Option<Nanos> {
        self.began.filter(|_| self.is_behind).map(|began| began + self.grace)
    }
}
