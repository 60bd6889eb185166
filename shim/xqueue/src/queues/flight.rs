//! What a queue has on the device: commands in their order, and markers behind some of them.
//!
//! ```text
//!   completed | c1 c2 (marker) c3 (marker) c4 c5
//!                      ^ looked at first     ^ without a marker yet
//! ```

mod stall;

use std::collections::VecDeque;

use xsched_sched::{InFlight, Launch, Limit, Nanos};

use crate::queues::origins::Origin;
use stall::Stall;

/// Names commands that take about as long as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class(pub u64);

/// What was launched while nobody looked.
const UNKNOWN: Class = Class(0);

/// What takes so long gets a marker of its own while somebody records.
const WORTH_A_MARKER: Nanos = Nanos::from_micros(5);

/// Markers are as far apart as this part of the work that may be ahead, by which its end is known well before it comes; they
/// cost time as well. The work counts and not when it was launched: a fast machine launches all of it at once.
const MARKS: u64 = 4;

/// The work between markers where what may be ahead is a number of commands.
const MARK_EVERY: Nanos = Nanos::from_micros(25);

/// Taken for the time of a command of which nothing is known, as far as gates go: each has its own.
const GATED_MAX: Nanos = Nanos::from_millis(1);

/// After how much quiet the stream is asked whether commands without a marker are done.
pub(super) const QUIET: Nanos = Nanos::from_micros(30);

/// For how long commands go without a marker although more are launched all the time: device time is to be known.
const UNMARKED_MAX: Nanos = Nanos::from_millis(2);

/// How long after a look the next one comes at the latest. What is expected of commands may be far too much, and of more and
/// more that are launched meanwhile.
const LOOK_LATEST: Nanos = Nanos::from_millis(10);

#[derive(Debug)]
struct Marked<M> {
    marker: M,
    /// Commands before it that no earlier marker has.
    commands: usize,
    /// How long these take together at least, as far as was known when it was recorded.
    work: Nanos,
}

/// A queue's commands on the device.
#[derive(Debug)]
pub(super) struct Flight<M> {
    commands: InFlight,
    marked: VecDeque<Marked<M>>,
    /// Commands that no marker has.
    unmarked: usize,
    /// The last marker, if it is what was seen complete last.
    before: Option<M>,
    /// When the first command without a marker was launched, when the last command was, and when somebody last looked.
    unmarked_since: Nanos,
    last: Nanos,
    looked: Nanos,
    /// Nothing was launched since somebody last asked the stream itself, which was not done.
    is_asked: bool,
    /// The program's event that is the last command's own, and whether the program has seen it complete.
    ends_by: Option<u64>,
    is_end_seen: bool,
    /// Work without a marker, as expected.
    unmarked_work: Nanos,
    /// Commands ever launched.
    launched: u64,
    /// How many these were when commands began to be launched of which nobody knows.
    unseen_from: Option<u64>,
    /// Work since the last gate, as expected, and the longest command of it.
    ungated: Nanos,
    longest_ungated: Nanos,
    /// How many commands were launched up to the last one that must not be stopped.
    pinned: u64,
    stall: Stall,
}

/// When what is seen complete was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Somebody has waited for it.
    JustNow,
    /// Somebody has looked.
    SinceTheLastLook,
}

/// A command that a call launches which began at `begun`.
pub(super) fn launch(begun: Nanos, Class(class): Class, Origin(payer): Origin, is_gated: bool) -> Launch {
    Launch { class, payer, begun, is_gated }
}

/// What has completed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Landed<M> {
    /// Device time that it took.
    pub(super) took: Nanos,
    /// A marker that is not needed any more.
    pub(super) retired: Option<M>,
}

impl<M: Copy> Flight<M> {
    pub(super) fn new(limit: Limit) -> Self {
        Self {
            commands: InFlight::new(limit),
            marked: VecDeque::new(),
            unmarked: 0,
            before: None,
            unmarked_since: Nanos::ZERO,
            last: Nanos::ZERO,
            unmarked_work: Nanos::ZERO,
            looked: Nanos::ZERO,
            is_asked: false,
            ends_by: None,
            is_end_seen: false,
            launched: 0,
            unseen_from: None,
            ungated: GATED_MAX,
            longest_ungated: Nanos::ZERO,
            pinned: 0,
            stall: Stall::new(),
        }
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.commands.set_limit(limit);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.outstanding() == 0
    }

    /// How many commands have not completed.
    pub(super) fn in_flight(&self) -> usize {
        self.commands.outstanding()
    }

    /// Device time that is expected of them.
    pub(super) fn ahead(&self, now: Nanos) -> Nanos {
        self.commands.ahead(now)
    }

    /// How long these take together, with what is over of it.
    pub(super) fn length(&self, now: Nanos) -> Nanos {
        self.commands.length(now)
    }

    /// Whether a recorded command gets a marker: it is long enough to bear one, or it is time for one.
    pub(super) fn is_worth_a_marker(&self, class: Class) -> bool {
        let is_short = self.commands.expected(class.0).is_some_and(|expected| expected < WORTH_A_MARKER);
        !is_short || self.wants_marker()
    }

    /// Whether one more command of this class may be launched. With `is_awaited`, callers wait in place.
    pub(super) fn has_room(&self, now: Nanos, class: Class, is_awaited: bool) -> bool {
        // What does not end may itself wait for what would be launched next.
        let is_stuck = || self.stall.is_too_long(now, self.commands.overdue(now), is_awaited);
        self.commands.may_launch(now, class.0) || is_stuck()
    }

    /// Whether the command that was launched last gets a marker: there is none, or enough work without.
    pub(super) fn wants_marker(&self) -> bool {
        self.marked.is_empty() || self.unmarked_work >= self.mark_every()
    }

    /// Whether what is still to be launched may soon have to wait until less is there.
    pub(super) fn is_half_full(&self, now: Nanos) -> bool {
        self.commands.is_half_full(now)
    }

    fn mark_every(&self) -> Nanos {
        match self.commands.limit() {
            Limit::Time { ahead, .. } => ahead / MARKS,
            Limit::Commands { .. } => MARK_EVERY,
        }
    }

    /// Whether a gate is to be put before the next command, which is of this class. Then it will be. So much work may follow a
    /// command before the next gate.
    pub(super) fn wants_gate(&mut self, class: Class, every: Nanos) -> bool {
        // Of what nothing is known much is expected.
        let expected = self.commands.expected(class.0).unwrap_or(GATED_MAX);
        let wants = self.is_empty() || self.ungated + expected > self.longest_ungated.max(expected) + every;
        if wants {
            (self.ungated, self.longest_ungated) = (Nanos::ZERO, Nanos::ZERO);
        }
        self.ungated += expected;
        self.longest_ungated = self.longest_ungated.max(expected);
        wants
    }

    /// A command was launched of which it is not known to whom it belongs.
    pub(super) fn launched(&mut self, now: Nanos, class: Class) {
        self.launched_by(now, launch(now, class, Origin::UNKNOWN, false));
    }

    /// A command was launched.
    pub(super) fn launched_by(&mut self, now: Nanos, launch: Launch) {
        if self.is_empty() {
            self.stall.is_over(now);
        } else if !self.commands.may_launch(now, launch.class) {
            self.stall.lets_go();
        }
        if self.unmarked == 0 {
            self.unmarked_since = now;
        }
        self.unmarked += 1;
        self.unmarked_work += self.commands.expected(launch.class).unwrap_or_else(|| self.mark_every());
        self.last = now;
        (self.is_asked, self.ends_by, self.is_end_seen) = (false, None, false);
        self.launched += 1;
        self.commands.launched_for(now, launch);
    }

    /// The command that was launched last must not be stopped, nor what is before it.
    pub(super) fn pin(&mut self) {
        self.pinned = self.launched;
    }

    /// Whether a command that must not be stopped has not completed.
    pub(super) fn is_any_pinned(&self) -> bool {
        self.launched - (self.commands.outstanding() as u64) < self.pinned
    }

    /// This event is the end of the command that was launched last.
    pub(super) fn ends_by_event(&mut self, event: u64) {
        self.ends_by = Some(event);
    }

    /// The program has seen that this event is complete.
    pub(super) fn has_seen_event(&mut self, event: u64) {
        self.is_end_seen |= self.ends_by == Some(event);
    }

    /// Whether there is a marker behind the last command of which the program knows that it is done.
    pub(super) fn is_marker_in_doubt(&self) -> bool {
        self.is_end_seen && self.unmarked == 0 && !self.marked.is_empty()
    }

    /// What is launched from now on is not followed, until it is adopted.
    pub(super) fn lose_sight(&mut self) {
        self.unseen_from = Some(self.launched);
    }

    /// Whether anything was launched that is not followed, or may have been.
    pub(super) fn is_any_unseen(&self) -> bool {
        self.unseen_from.is_some()
    }

    /// Something may be on the device of which nothing is known, unless what is known came behind it. The stream is to be asked at
    /// once.
    pub(super) fn adopt(&mut self, now: Nanos) {
        let is_last_unseen = self.unseen_from.take() == Some(self.launched);
        if self.is_empty() || is_last_unseen {
            self.launched(now, UNKNOWN);
            self.last = Nanos::ZERO;
        }
    }

    /// A marker was recorded behind the first so many commands ever launched; others may have been launched meanwhile. Gives
    /// it back if it says nothing: another one has all that it has.
    pub(super) fn marked(&mut self, now: Nanos, marker: M, launched: u64) -> Option<M> {
        let meanwhile = self.launched.saturating_sub(launched) as usize;
        let commands = self.unmarked.saturating_sub(meanwhile);
        if commands == 0 {
            return Some(marker);
        }
        if self.marked.is_empty() {
            self.looked = now;
        }
        let first = self.in_flight() - self.unmarked;
        let work = self.commands.least(first..first + commands);
        self.marked.push_back(Marked { marker, commands, work });
        self.unmarked -= commands;
        if self.unmarked == 0 {
            self.unmarked_work = Nanos::ZERO;
        }
        None
    }

    /// Whether commands are without a marker for so long that the next one gets one.
    pub(super) fn is_unmarked_for_long(&self, now: Nanos) -> bool {
        self.unmarked > 0 && now >= self.unmarked_since + UNMARKED_MAX
    }

    /// When to ask the stream whether it is done: what is there has no marker, and nothing was launched for a while.
    pub(super) fn quiet_at(&self) -> Option<Nanos> {
        if self.unmarked == 0 || !self.marked.is_empty() {
            return None;
        }
        if !self.is_asked {
            return Some(self.last + QUIET);
        }
        let work = self.commands.least(0..self.in_flight());
        Some(self.commands.done_at(self.looked, work)?.min(self.looked + LOOK_LATEST))
    }

    /// The stream was asked, and is not done.
    pub(super) fn asked(&mut self, now: Nanos) {
        self.is_asked = true;
        self.looked(now);
    }

    /// The marker to look at next.
    pub(super) fn first_marker(&self) -> Option<M> {
        self.marked.front().map(|first| first.marker)
    }

    /// The marker that was complete last.
    pub(super) fn marker_before(&self) -> Option<M> {
        self.before
    }

    /// When to look at the first marker. With `is_waited_for`, something waits for room.
    pub(super) fn look_at(&self, is_waited_for: bool) -> Option<Nanos> {
        let first = self.marked.front()?;
        let at = if is_waited_for {
            self.commands.room_at(self.looked)
        } else {
            self.commands.done_at(self.looked, first.work)
        };
        at.map(|at| at.min(self.looked + LOOK_LATEST))
    }

    /// When a marker was last looked at, or there was none.
    pub(super) fn looked_at(&self) -> Nanos {
        self.looked
    }

    /// The first marker was looked at, and is not complete.
    pub(super) fn looked(&mut self, now: Nanos) {
        self.commands.completed(now, 0);
        self.looked = now;
    }

    /// The first marker is complete; `device_time` is what lies between it and the one before, if that is known.
    pub(super) fn landed(&mut self, now: Nanos, device_time: Option<Nanos>) -> Option<Landed<M>> {
        let Marked { marker, commands, .. } = self.marked.pop_front()?;
        let took = match device_time {
            // The device's time includes that of idling before the first command, the host's that of noticing the last.
            Some(time) => self.commands.completed_in(now, commands, time),
            None => self.commands.completed(now, commands),
        };
        self.note_completion(now);
        Some(Landed { took, retired: self.before.replace(marker) })
    }

    fn note_completion(&mut self, now: Nanos) {
        self.looked = now;
        self.stall.is_over(now);
    }

    /// Others' work is between its own.
    pub(super) fn disturbed(&mut self, now: Nanos) {
        self.commands.disturbed(now);
    }

    /// The gate before its commands is open, or shut, from now on.
    pub(super) fn set_gate(&mut self, now: Nanos, is_open: bool) {
        self.commands.set_gate(now, is_open);
    }

    /// The process has to give way from now on, or need not any more.
    pub(super) fn held(&mut self, now: Nanos, is_held: bool) {
        self.stall.held(now, is_held);
        self.disturbed(now);
    }

    /// How many commands were ever launched.
    pub(super) fn launched_so_far(&self) -> u64 {
        self.launched
    }

    /// Somebody has seen that the first so many commands ever launched are complete: just now, or some time since the last
    /// look. The device time that they took; none if nothing is left of them. Adds markers that are not needed any more.
    ///
    /// All at once, whatever markers are between them: only the end of the last is known.
    pub(super) fn landed_before(
        &mut self,
        launched: u64,
        now: Nanos,
        end: Seen,
        retired: &mut Vec<M>,
    ) -> Option<Nanos> {
        let in_flight = self.commands.outstanding() as u64;
        let completed = self.launched - in_flight;
        let commands = launched.saturating_sub(completed).min(in_flight) as usize;
        if commands == 0 {
            return None;
        }
        let took = match end {
            Seen::JustNow => self.commands.waited(now, commands),
            Seen::SinceTheLastLook => self.commands.completed(now, commands),
        };
        let mut left = commands;
        while let Some(first) = self.marked.pop_front_if(|first| first.commands <= left) {
            left -= first.commands;
            retired.extend(self.before.replace(first.marker));
        }
        if left > 0 {
            match self.marked.front_mut() {
                Some(first) => {
                    first.commands -= left;
                    first.work = self.commands.least(0..first.commands);
                }
                None => self.unmarked -= left.min(self.unmarked),
            }
            retired.extend(self.before.take());
        }
        self.note_completion(now);
        Some(took)
    }

    /// Whose commands took what of the time of everything that has landed since this was last called.
    pub(super) fn take_charges(&mut self) -> impl Iterator<Item = (Origin, Nanos)> {
        self.commands.take_charges().map(|(origin, took)| (Origin(origin), took))
    }

    /// Origins' numbers have lost their meaning.
    pub(super) fn forget_origins(&mut self) {
        self.commands.forget_payers();
    }

    /// Nothing is known of the queue any more. Returns markers that are not needed.
    pub(super) fn abandon(&mut self) -> Vec<M> {
        (self.unmarked, self.unmarked_work) = (0, Nanos::ZERO);
        self.commands.clear();
        let markers = self.marked.drain(..).map(|marked| marked.marker);
        markers.chain(self.before.take()).collect()
    }
}

#[cfg(test)]
mod tests;
