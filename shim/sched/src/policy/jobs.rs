//! The deadlines of processes' requests.
//!
//! A request is to be done within the process's deadline, counted from its begin. If it is not, its deadline is put off by
//! another period, as if a new request had begun. This bounds what it takes from others. So a process that never finishes has a
//! deadline in each period, like one with a request in each.
//!
//! If a process says how much device time a request takes, that is also all it gets for a deadline. A request that takes more, or
//! that comes before the deadline of the one before, has a later deadline. It stands behind all others until that deadline is one
//! period away. So each process takes from others at most what it has said, `work` per `deadline`. This is a constant bandwidth
//! server with hard reservation (Abeni and Buttazzo, 1998). What it gets meanwhile because no other process wants it is not owed.

use super::order::Standing;
use super::{LOOK_EVERY, View};
use crate::claim::Process;
use crate::{Attributes, Nanos};

/// The deadline of a process's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Terms {
    /// Zero: none.
    deadline: Nanos,
    work: Option<Nanos>,
}

/// What is to be done by when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Job {
    terms: Terms,
    /// When its request began; `None`: there is none.
    began: Option<Nanos>,
    pub(super) deadline: Nanos,
    /// [`Process::charged`] when the time for this deadline began.
    charged_before: Nanos,
}

/// The jobs of all processes.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    terms: Vec<Terms>,
    of_processes: Vec<Job>,
    next_deadline: Option<Nanos>,
}

/// Whether the requests of a claim's process have deadlines.
pub(super) fn has_deadline(attributes: &Attributes) -> bool {
    attributes.deadline.is_some()
}

impl Jobs {
    pub(super) fn joined(&mut self) {
        self.of_processes.push(Job::default());
    }

    pub(super) fn left(&mut self, index: usize) {
        self.of_processes.swap_remove(index);
    }

    /// Brings all jobs up to date.
    pub(super) fn follow(&mut self, view: &View<'_>) {
        if view.altered {
            self.find_terms(view);
        }
        self.next_deadline = None;
        for ((job, terms), process) in self.of_processes.iter_mut().zip(&self.terms).zip(view.processes) {
            if !terms.deadline.is_zero() {
                job.follow(*terms, process, view.now);
                // When it is urgent again, or when its deadline has passed.
                let next =
                    if job.is_used_up(view.now) { job.deadline - terms.deadline } else { job.deadline };
                let next = job.began.map(|_| next);
                self.next_deadline = self.next_deadline.into_iter().chain(next).min();
            }
        }
    }

    /// Where a process is to stand: by this key if it has work, a deadline, and time left for it.
    pub(super) fn standing(&self, process: usize, now: Nanos, key: impl FnOnce(&Job) -> Nanos) -> Standing {
        let job = &self.of_processes[process];
        if job.began.is_none() || self.terms[process].deadline.is_zero() {
            return Standing::Sharing;
        }
        if job.is_used_up(now) { Standing::Behind } else { Standing::Urgent(key(job).0) }
    }

    /// What is left of the work of a job: of what was said, or of what requests usually take.
    pub(super) fn work_left(&self, index: usize, process: &Process) -> Nanos {
        let work = self.terms[index].work.unwrap_or(process.requests.usual_work);
        work - (process.charged - self.of_processes[index].charged_before)
    }

    /// When to look again: at the next deadline, or when a process `in_front` has used up the work that it has said.
    pub(super) fn again(&self, view: &View<'_>, in_front: impl Iterator<Item = usize>) -> Option<Nanos> {
        let in_front =
            in_front.filter(|index| !view.has_starvation_slice && self.terms[*index].work.is_some());
        let left = in_front.map(|index| self.work_left(index, &view.processes[index]).max(LOOK_EVERY));
        left.map(|left| view.now + left).chain(self.next_deadline).min()
    }

    /// A process with several claims has the deadline and the work of the one that may take the largest part of the device.
    fn find_terms(&mut self, view: &View<'_>) {
        self.terms.clear();
        self.terms.resize(view.processes.len(), Terms::default());
        for claim in view.claims {
            let Some(deadline) = claim.attributes.deadline else { continue };
            let deadline = deadline.max(crate::Slo::LATENCY_LEAST);
            let terms = Terms { deadline, work: claim.attributes.work.map(|work| work.max(Nanos(1))) };
            let known = &mut self.terms[claim.process];
            if known.deadline.is_zero() || terms.takes_more_than(*known) {
                *known = terms;
            }
        }
    }
}

impl Terms {
    /// Whether it may take a larger part of the device; of two equal parts, whether it is due sooner.
    fn takes_more_than(self, other: Self) -> bool {
        let work = |terms: Self| u128::from(terms.work.unwrap_or(terms.deadline).0);
        let (own, others) =
            (work(self) * u128::from(other.deadline.0), work(other) * u128::from(self.deadline.0));
        own > others || own == others && self.deadline < other.deadline
    }
}

impl Job {
    /// Whether it has had its time for now.
    fn is_used_up(&self, now: Nanos) -> bool {
        self.terms.work.is_some() && self.deadline > now + self.terms.deadline
    }

    fn follow(&mut self, terms: Terms, process: &Process, now: Nanos) {
        if self.terms != terms {
            *self = Self { terms, charged_before: process.charged, ..Self::default() };
        }
        let before = std::mem::replace(&mut self.began, process.requests.began);
        let Some(began) = self.began else { return };
        if before != self.began && !self.still_counts(terms, process, began) {
            (self.deadline, self.charged_before) = (began + terms.deadline, process.charged);
        }
        if self.deadline <= now {
            let missed = (now - self.deadline).0 / terms.deadline.0 + 1;
            self.deadline += terms.deadline.times(missed);
            self.charged_before = process.charged;
        }
        if self.is_used_up(now) {
            // No other process wanted that time.
            self.charged_before = process.charged;
        } else if let Some(work) = terms.work {
            let used_up = (process.charged - self.charged_before).0 / work.0;
            // One kernel may take longer than all the work that was said.
            self.deadline += terms.deadline.times(used_up.min(2));
            self.charged_before += work.times(used_up);
        }
    }

    /// Whether a request that begins now gets only what the one before has left over. With all of its own time, the process would
    /// take more than it has stated.
    fn still_counts(&self, terms: Terms, process: &Process, now: Nanos) -> bool {
        let Some(work) = terms.work else { return false };
        let left = work - (process.charged - self.charged_before);
        let until = self.deadline - now;
        u128::from(left.0) * u128::from(terms.deadline.0) < u128::from(until.0) * u128::from(work.0)
    }
}
