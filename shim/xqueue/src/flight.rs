//! What a source has in flight: its commands in order, and markers behind some of them.
//!
//! ```text
//!   completed | c1 c2 (marker) c3 (marker) c4 c5
//!                      ^ looked at first     ^ without a marker yet
//! ```

mod stall;

use std::collections::VecDeque;

use xsched_sched::{Durations, InFlight, Launch, Limit, Nanos};

use crate::command::DurationClass;
use crate::journal::Launched;
use crate::origins::Origin;
use stall::Stall;

/// The class of commands that were launched without being followed.
const UNKNOWN: DurationClass = DurationClass(0);

/// In a recorded process, a command that takes this long gets a marker of its own.
const WORTH_A_MARKER: Nanos = Nanos::from_micros(5);

/// The work that may be launched ahead, divided by the work between two markers. More markers tell the end of work earlier, but
/// each costs time. Work counts, and not the time of launch: a fast machine launches all of it at once.
const MARKS: u64 = 4;

/// The most work between markers.
const MARK_EVERY_MAX: Nanos = Nanos::from_micros(250);

/// The work between markers where a number of commands, and not a time, limits what is launched ahead.
const MARK_EVERY: Nanos = Nanos::from_micros(25);

/// The shortest time between two markers that are recorded because none is left. Without it, a program whose threads are slower
/// than the device would have a marker behind each command, and the watcher would look at each. The ends of commands in between
/// are found by asking the stream, once no more follow.
const SAMPLE_EVERY: Nanos = Nanos::from_micros(100);

/// The duration that gates assume for a command whose duration is unknown, so that each such command has a gate of its own.
const GATED_MAX: Nanos = Nanos::from_millis(1);

/// How long after the last launch the stream is asked whether its commands without a marker are done.
pub(crate) const QUIET: Nanos = Nanos::from_micros(30);

/// The longest time in which no command gets a marker while more are launched: device time must become known. Longer if many queues
/// are busy.
pub(crate) const UNMARKED_MAX: Nanos = Nanos::from_millis(2);

/// The shortest time between two looks that nothing waits for. A look takes locks of the runtime, which threads need to launch.
const CHECK_SOONEST: Nanos = Nanos::from_micros(50);

/// The longest time between two looks. The expected time of commands may be far too long, and more commands may be launched
/// meanwhile.
const CHECK_LATEST: Nanos = Nanos::from_millis(10);

#[derive(Debug)]
struct Marked<M> {
    marker: M,
    /// Commands between this marker and the one before it.
    commands: usize,
    /// How long these commands take together at least, by what was known when the marker was recorded.
    work: Nanos,
}

/// A source's commands in flight.
#[derive(Debug)]
pub(crate) struct Flight<M> {
    commands: InFlight,
    marked: VecDeque<Marked<M>>,
    /// When the last marker was recorded.
    marked_at: Nanos,
    /// Commands behind the last marker.
    unmarked: usize,
    /// The last complete marker, if nothing was seen complete since.
    before: Option<M>,
    /// When the first command without a marker was launched, when the last command was launched, and when the last look was.
    unmarked_since: Nanos,
    last: Nanos,
    checked: Nanos,
    /// The stream was asked since the last launch, and was not done.
    is_asked: bool,
    /// The program's event that is the last command's own, and whether the program has seen it complete.
    ends_by: Option<u64>,
    is_end_seen: bool,
    /// The expected work of commands without a marker.
    unmarked_work: Nanos,
    /// How many commands were ever launched.
    launched: u64,
    /// The value of `launched` at the first command that is not followed.
    unfollowed_from: Option<u64>,
    /// Expected work since the last gate, and the longest command of that work.
    ungated: Nanos,
    longest_ungated: Nanos,
    /// The value of `launched` at the last pinned command.
    pinned: u64,
    stall: Stall,
}

/// How a completion was seen, which says when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A thread has waited for it, so it was just now.
    ByWait,
    /// It was looked at, so it was some time since the last look.
    ByLook,
}

/// The launch of a command by a call that was admitted at `begun`.
pub(crate) fn launch_of(
    begun: Nanos,
    DurationClass(class): DurationClass,
    Origin(payer): Origin,
    is_gated: bool,
) -> Launch {
    Launch { class, payer, begun, is_gated }
}

/// Completed commands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completed<M> {
    /// Device time that they took.
    pub(crate) took: Nanos,
    /// A marker to retire.
    pub(crate) retired: Option<M>,
}

impl<M: Copy> Flight<M> {
    pub(crate) fn new(limit: Limit) -> Self {
        Self::sharing(limit, Durations::default())
    }

    /// One that learns with others how long commands take.
    pub(crate) fn sharing(limit: Limit, durations: Durations) -> Self {
        Self {
            commands: InFlight::sharing(limit, durations),
            marked: VecDeque::new(),
            marked_at: Nanos::ZERO,
            unmarked: 0,
            before: None,
            unmarked_since: Nanos::ZERO,
            last: Nanos::ZERO,
            unmarked_work: Nanos::ZERO,
            checked: Nanos::ZERO,
            is_asked: false,
            ends_by: None,
            is_end_seen: false,
            launched: 0,
            unfollowed_from: None,
            ungated: GATED_MAX,
            longest_ungated: Nanos::ZERO,
            pinned: 0,
            stall: Stall::new(),
        }
    }

    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.commands.set_limit(limit);
    }

    /// How long commands take, to share it with another.
    pub(crate) fn durations(&self) -> Durations {
        self.commands.durations()
    }

    /// Learns with others from now on.
    pub(crate) fn share(&mut self, durations: Durations) {
        self.commands.share(durations);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commands.outstanding() == 0
    }

    /// The next command begins only after something outside the device allows it.
    pub(crate) fn waits(&mut self) {
        self.commands.waits();
    }

    /// Whether the first command probably executes, and does not take longer than commands took before.
    pub(crate) fn is_executing(&self, now: Nanos) -> bool {
        self.commands.is_executing(now)
    }

    /// How many commands have not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.commands.outstanding()
    }

    /// The device time that is expected of commands in flight.
    pub(crate) fn ahead(&self, now: Nanos) -> Nanos {
        self.commands.ahead(now)
    }

    /// The device time of commands in flight, including the part that is over.
    pub(crate) fn length(&self, now: Nanos) -> Nanos {
        self.commands.length(now)
    }

    /// Whether a command of a recorded process gets a marker: it takes long compared to a marker, or a marker is due anyway.
    pub(crate) fn is_worth_a_marker(&self, now: Nanos, class: DurationClass) -> bool {
        let is_short = self.commands.expected(class.0).is_some_and(|expected| expected < WORTH_A_MARKER);
        !is_short || self.wants_marker(now)
    }

    /// Whether one more command of this class may be launched. With `is_awaited`, callers wait in place.
    pub(crate) fn may_launch(&self, now: Nanos, class: DurationClass, is_awaited: bool) -> bool {
        // A command that does not complete may wait for the one that would be launched next.
        let is_stuck = || self.stall.releases(now, self.commands.overdue(now), is_awaited);
        self.commands.may_launch(now, class.0) || is_stuck()
    }

    /// Whether the last launched command gets a marker: much work has none, or none is left and the last was recorded a while
    /// ago.
    pub(crate) fn wants_marker(&self, now: Nanos) -> bool {
        let is_sample = self.marked.is_empty() && now >= self.marked_at + SAMPLE_EVERY;
        is_sample || self.unmarked_work >= self.mark_every()
    }

    /// Whether commands soon have to wait until less is in flight.
    pub(crate) fn is_half_full(&self, now: Nanos) -> bool {
        self.commands.is_half_full(now)
    }

    fn mark_every(&self) -> Nanos {
        match self.commands.limit() {
            Limit::Time { ahead, .. } => (ahead / MARKS).min(MARK_EVERY_MAX),
            Limit::Commands { .. } => MARK_EVERY,
        }
    }

    /// Whether to put a gate before the next command, which is of this class. The caller must then do it. `every` is how much
    /// work may follow a command before the next gate.
    pub(crate) fn wants_gate(&mut self, class: DurationClass, every: Nanos) -> bool {
        // A command of unknown duration is taken to be long.
        let expected = self.commands.expected(class.0).unwrap_or(GATED_MAX);
        let wants = self.is_empty() || self.ungated + expected > self.longest_ungated.max(expected) + every;
        if wants {
            (self.ungated, self.longest_ungated) = (Nanos::ZERO, Nanos::ZERO);
        }
        self.ungated += expected;
        self.longest_ungated = self.longest_ungated.max(expected);
        wants
    }

    /// How long commands of a class usually take, if that is known.
    pub(crate) fn expected(&self, class: DurationClass) -> Option<Nanos> {
        self.commands.expected(class.0)
    }

    /// How much work may be launched before a gate, a marker or a limit concerns a launch. `every` is how much work may follow a
    /// command before the next gate.
    pub(crate) fn work_at_once(&self, now: Nanos, every: Nanos) -> Nanos {
        let gate = self.longest_ungated + every - self.ungated;
        let marker = self.mark_every() - self.unmarked_work;
        // What is ahead is an upper bound, and what enters are usual times.
        self.commands.left(now).map_or(Nanos::ZERO, |left| gate.min(marker).min(left / 2))
    }

    /// Whether the next command, which is of this class, should be measured by itself.
    pub(crate) fn begins_sample(&self, now: Nanos, class: DurationClass) -> bool {
        self.commands.begins_sample(now, class.0)
    }

    /// A command that was launched at `launched` took this long by itself, by the device's clock.
    pub(crate) fn sampled(&mut self, class: DurationClass, launched: Nanos, took: Nanos) {
        self.commands.sampled(class.0, launched, took);
    }

    /// Notes the launch of a command of unknown origin.
    pub(crate) fn launched(&mut self, now: Nanos, class: DurationClass) {
        self.launched_by(now, launch_of(now, class, Origin::UNKNOWN, false));
    }

    /// Notes the launch of a command. Returns how long it usually takes, if that is known.
    pub(crate) fn launched_by(&mut self, now: Nanos, launch: Launch) -> Option<Nanos> {
        if self.is_empty() {
            self.stall.reset(now);
        } else if stall::is_possible(self.commands.overdue(now))
            && !self.commands.may_launch(now, launch.class)
        {
            self.stall.releases_one();
        }
        if self.unmarked == 0 {
            self.unmarked_since = now;
        }
        self.unmarked += 1;
        self.last = now;
        (self.is_asked, self.ends_by, self.is_end_seen) = (false, None, false);
        self.launched += 1;
        let expected = self.commands.launched_for(now, launch);
        self.unmarked_work += expected.unwrap_or_else(|| self.mark_every());
        expected
    }

    /// Notes a launch that took no lock. Returns how long the command usually takes, if the runtime took it and that is known.
    pub(crate) fn launched_at_once(&mut self, launched: &Launched) -> Option<Nanos> {
        let &Launched { admitted, returned, class, origin, on_device, .. } = launched;
        if !on_device {
            return None;
        }
        let usual = self.launched_by(returned, launch_of(admitted, class, origin, false));
        let expected = usual.unwrap_or(GATED_MAX);
        self.ungated += expected;
        self.longest_ungated = self.longest_ungated.max(expected);
        usual
    }

    /// When the last command was launched.
    pub(crate) fn last_launch(&self) -> Nanos {
        self.last
    }

    /// When the next launched command is to have a marker: so much later than that of a queue which is the only busy one.
    pub(crate) fn marker_due(&self, now: Nanos, later: Nanos) -> Nanos {
        let since = if self.unmarked > 0 { self.unmarked_since } else { now };
        since + UNMARKED_MAX + later
    }

    /// Pins the last launched command and all before it.
    pub(crate) fn pin(&mut self) {
        self.pinned = self.launched;
    }

    /// Whether any pinned command has not completed.
    pub(crate) fn is_any_pinned(&self) -> bool {
        self.launched - (self.commands.outstanding() as u64) < self.pinned
    }

    /// The last launched command completes with this event.
    pub(crate) fn ends_by_event(&mut self, event: u64) {
        self.ends_by = Some(event);
    }

    /// The program has seen that this event is complete.
    pub(crate) fn event_seen(&mut self, event: u64) {
        self.is_end_seen |= self.ends_by == Some(event);
    }

    /// Whether the program knows that the last command is done, while a marker behind that command may not be.
    pub(crate) fn is_marker_in_doubt(&self) -> bool {
        self.is_end_seen && self.unmarked == 0 && !self.marked.is_empty()
    }

    /// Launches from now on are not followed, until [`Self::adopt`].
    pub(crate) fn stop_following(&mut self) {
        self.unfollowed_from = Some(self.launched);
    }

    /// Whether anything was launched that is not followed.
    pub(crate) fn is_any_unfollowed(&self) -> bool {
        self.unfollowed_from.is_some()
    }

    /// Follows launches again. If unfollowed commands may be in flight, one command stands for them, and the stream is to be
    /// asked at once. They cannot be if followed commands were launched after them.
    pub(crate) fn adopt(&mut self, now: Nanos) {
        let is_last_unfollowed = self.unfollowed_from.take() == Some(self.launched);
        if self.is_empty() || is_last_unfollowed {
            self.launched(now, UNKNOWN);
            self.last = Nanos::ZERO;
        }
    }

    /// Notes a marker behind the first `launched` commands; more may have been launched since. Returns the marker if an earlier
    /// one stands for the same commands.
    pub(crate) fn marked(&mut self, now: Nanos, marker: M, launched: u64) -> Option<M> {
        let meanwhile = self.launched.saturating_sub(launched) as usize;
        let commands = self.unmarked.saturating_sub(meanwhile);
        if commands == 0 {
            return Some(marker);
        }
        if self.marked.is_empty() {
            self.checked = now;
        }
        let first = self.in_flight() - self.unmarked;
        let work = self.commands.least(first..first + commands);
        self.marked.push_back(Marked { marker, commands, work });
        self.marked_at = now;
        self.unmarked -= commands;
        if self.unmarked == 0 {
            self.unmarked_work = Nanos::ZERO;
        }
        None
    }

    /// Whether commands have had no marker for so long that the next one gets one.
    pub(crate) fn is_unmarked_for_long(&self, now: Nanos, later: Nanos) -> bool {
        self.unmarked > 0 && now >= self.marker_due(now, later)
    }

    /// When to ask the stream whether it is done: its commands have no marker, and nothing was launched for a while.
    pub(crate) fn ask_stream_at(&self) -> Option<Nanos> {
        if self.unmarked == 0 || !self.marked.is_empty() {
            return None;
        }
        if !self.is_asked {
            return Some(self.last + QUIET);
        }
        let work = self.commands.least(0..self.in_flight());
        Some(self.commands.done_at(self.checked, work)?.min(self.checked + CHECK_LATEST))
    }

    /// The stream was asked and is not done.
    pub(crate) fn stream_busy(&mut self, now: Nanos) {
        self.is_asked = true;
        self.first_marker_pending(now);
    }

    /// The first incomplete marker.
    pub(crate) fn first_marker(&self) -> Option<M> {
        self.marked.front().map(|first| first.marker)
    }

    /// The last complete marker, if nothing was seen complete since.
    pub(crate) fn marker_before(&self) -> Option<M> {
        self.before
    }

    /// When to look at the first marker. With `is_waited_for`, commands wait until less is in flight.
    pub(crate) fn next_check(&self, is_waited_for: bool) -> Option<Nanos> {
        let first = self.marked.front()?;
        let at = if is_waited_for {
            self.commands.capacity_at(self.checked)
        } else {
            self.commands.done_at(self.checked, first.work).map(|at| at.max(self.checked + CHECK_SOONEST))
        };
        at.map(|at| at.min(self.checked + CHECK_LATEST))
    }

    /// When the last look was, or when the first marker since then was recorded.
    pub(crate) fn last_check(&self) -> Nanos {
        self.checked
    }

    /// The first marker was looked at and is not complete.
    pub(crate) fn first_marker_pending(&mut self, now: Nanos) {
        self.commands.completed(now, 0);
        self.checked = now;
    }

    /// The first marker is complete. `device_time` is the device's time since the marker before it, if known.
    pub(crate) fn first_marker_completed(
        &mut self,
        now: Nanos,
        device_time: Option<Nanos>,
    ) -> Option<Completed<M>> {
        let Marked { marker, commands, .. } = self.marked.pop_front()?;
        let took = match device_time {
            // The device's time includes idling before the first command; the host's time includes the delay until the look.
            Some(time) => self.commands.completed_in(now, commands, time),
            None => self.commands.completed(now, commands),
        };
        self.note_completion(now);
        Some(Completed { took, retired: self.before.replace(marker) })
    }

    fn note_completion(&mut self, now: Nanos) {
        self.checked = now;
        self.stall.reset(now);
    }

    /// Other work runs on the device between this source's commands.
    pub(crate) fn disturbed(&mut self, now: Nanos) {
        self.commands.disturbed(now);
    }

    /// The gate before the commands is open or closed from now on.
    pub(crate) fn set_gate(&mut self, now: Nanos, is_open: bool) {
        self.commands.set_gate(now, is_open);
    }

    /// The process is preempted from now on; false ends that.
    pub(crate) fn preempted(&mut self, now: Nanos, is_preempted: bool) {
        self.stall.preempted(now, is_preempted);
        self.disturbed(now);
    }

    /// How many commands were ever launched.
    pub(crate) fn launched_so_far(&self) -> u64 {
        self.launched
    }

    /// Notes that the first `launched` commands were seen complete. Returns the device time of those that were in flight; None if
    /// none was. Adds markers to retire.
    ///
    /// The commands count as one step, whatever markers are between them: only the end of the last is known.
    pub(crate) fn completed_through(
        &mut self,
        launched: u64,
        now: Nanos,
        seen: Seen,
        retired: &mut Vec<M>,
    ) -> Option<Nanos> {
        if launched == self.launched {
            // The stream was asked or waited for, so waits in it are over, too.
            self.commands.wait_is_over();
        }
        let in_flight = self.commands.outstanding() as u64;
        let completed = self.launched - in_flight;
        let commands = launched.saturating_sub(completed).min(in_flight) as usize;
        if commands == 0 {
            return None;
        }
        let took = match seen {
            Seen::ByWait => self.commands.waited(now, commands),
            Seen::ByLook => self.commands.completed(now, commands),
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

    /// Takes the device time, by origin, of what has completed since the last call.
    pub(crate) fn take_charges(&mut self) -> impl Iterator<Item = (Origin, Nanos)> {
        self.commands.take_charges().map(|(origin, took)| (Origin(origin), took))
    }

    /// Origin numbers are void from now on.
    pub(crate) fn forget_origins(&mut self) {
        self.commands.forget_payers();
    }

    /// Stops following the commands in flight. Returns markers to retire.
    pub(crate) fn abandon(&mut self) -> Vec<M> {
        (self.unmarked, self.unmarked_work) = (0, Nanos::ZERO);
        self.commands.clear();
        let markers = self.marked.drain(..).map(|marked| marked.marker);
        markers.chain(self.before.take()).collect()
    }
}

#[cfg(test)]
mod tests;
