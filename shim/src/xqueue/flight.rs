//! What a queue has on the device: commands in their order, and markers behind some of them.
//!
//! ```text
//!   completed | c1 c2 (marker) c3 (marker) c4 c5
//!                      ^ looked at first     ^ without a marker yet
//! ```

use std::collections::VecDeque;

use xsched_sched::{InFlight, Limit, Nanos};

use crate::xqueue::origins::Origin;

/// Names commands that take about as long as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Class(pub(crate) u64);

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

/// How much longer than ever a command takes before one more is let go: it may itself wait for that one.
const PATIENCE: Nanos = Nanos::from_millis(10);

/// After how long without a completion all may be let go while a caller waits in place: the device may wait for what that caller
/// would do next.
const LIFTED_AFTER: Nanos = Nanos::from_millis(100);

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

/// That nothing completes, while the process need not give way.
#[derive(Debug, Default)]
struct Stall {
    /// Since when it may launch; None: it must give way.
    since: Option<Nanos>,
    /// For how long that was so before. Turns may each be too short to see that nothing completes.
    before: Nanos,
    /// How many commands were let go because of it.
    let_go: usize,
}

impl Stall {
    /// Something has completed, or is the first to be launched.
    fn is_over(&mut self, now: Nanos) {
        *self = Self { since: self.since.map(|_| now), ..Self::default() };
    }

    fn lasts(&self, now: Nanos) -> Nanos {
        self.before + self.since.map_or(Nanos::ZERO, |since| now - since)
    }
}

/// When what is seen complete was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Somebody has waited for it.
    JustNow,
    /// Somebody has looked.
    SinceTheLastLook,
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
            stall: Stall { since: Some(Nanos::ZERO), ..Stall::default() },
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
        let is_stuck = || {
            let lasts = self.stall.lasts(now);
            let lets_go = lasts > PATIENCE.times(self.stall.let_go as u64 + 1);
            self.commands.overdue(now) > PATIENCE && (lets_go || is_awaited && lasts > LIFTED_AFTER)
        };
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
        self.launched_by(now, now, class, Origin::UNKNOWN);
    }

    /// A command was launched by a call that began at `begun`.
    pub(super) fn launched_by(&mut self, begun: Nanos, now: Nanos, class: Class, Origin(origin): Origin) {
        if self.is_empty() {
            self.stall.is_over(now);
        } else if !self.commands.may_launch(now, class.0) {
            self.stall.let_go += 1;
        }
        if self.unmarked == 0 {
            self.unmarked_since = now;
        }
        self.unmarked += 1;
        self.unmarked_work += self.commands.expected(class.0).unwrap_or_else(|| self.mark_every());
        self.last = now;
        (self.is_asked, self.ends_by, self.is_end_seen) = (false, None, false);
        self.launched += 1;
        self.commands.launched_for(begun, now, class.0, origin);
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

    /// The process has to give way from now on, or need not any more.
    pub(super) fn held(&mut self, now: Nanos, is_held: bool) {
        if is_held {
            self.stall.before = self.stall.lasts(now);
            self.stall.since = None;
        } else {
            // That it was held may not have been noticed before.
            self.stall.since = Some(now);
        }
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
mod tests {
    use super::*;

    const CLASS: Class = Class(1);

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(1_000_000 + us)
    }

    /// Behind all that was launched.
    fn mark<M: Copy>(flight: &mut Flight<M>, now: Nanos, marker: M) {
        let launched = flight.launched_so_far();
        assert!(flight.marked(now, marker, launched).is_none());
    }

    #[test]
    fn a_marker_says_nothing_of_what_was_launched_while_it_was_recorded() {
        let mut flight = Flight::new(Limit::default());
        flight.launched(us(0), CLASS);
        let before = flight.launched_so_far();
        flight.launched(us(1), CLASS);
        assert_eq!(flight.marked(us(2), 1, before), None);
        flight.landed(us(25), None).unwrap();
        assert!(flight.quiet_at().is_some(), "the second has none");
        assert_eq!(flight.in_flight(), 1);
    }

    #[test]
    fn a_marker_that_was_overtaken_is_not_needed() {
        let mut flight = Flight::new(Limit::default());
        flight.launched(us(0), CLASS);
        let before = flight.launched_so_far();
        flight.launched(us(1), CLASS);
        mark(&mut flight, us(2), 2);
        assert_eq!(flight.marked(us(3), 1, before), Some(1));
        assert_eq!(flight.first_marker(), Some(2));
        flight.landed(us(25), None).unwrap();
        assert!(flight.is_empty());
    }

    #[test]
    fn a_marker_stands_for_what_was_launched_since_the_one_before() {
        let mut flight = Flight::new(Limit::default());
        flight.launched(us(0), CLASS);
        flight.launched(us(1), CLASS);
        mark(&mut flight, us(1), 1);
        flight.launched(us(2), CLASS);
        mark(&mut flight, us(2), 2);
        assert_eq!(flight.first_marker(), Some(1));
        let landed = flight.landed(us(25), Some(Nanos::from_micros(25))).unwrap();
        assert_eq!(landed, Landed { took: Nanos::from_micros(25), retired: None });
        let landed = flight.landed(us(60), Some(Nanos::from_micros(60))).unwrap();
        let took = Nanos::from_micros(35);
        assert_eq!(landed, Landed { took, retired: Some(1) }, "it began when the others were done");
        assert!(flight.is_empty());
    }

    #[test]
    fn a_device_that_tells_the_time_is_believed_unless_it_was_idle() {
        let mut flight = Flight::new(Limit::default());
        for (launched, device_time, took) in [(0, 20, 20), (1_000, 1_100, 30)] {
            flight.launched(us(launched), CLASS);
            mark(&mut flight, us(launched), launched);
            let landed = flight.landed(us(launched + 30), Some(Nanos::from_micros(device_time))).unwrap();
            assert_eq!(landed.took, Nanos::from_micros(took));
        }
    }

    /// The device's clock tells when it was done, once a completion was noticed in time.
    #[test]
    fn who_looks_late_after_idling_is_not_charged_for_it() {
        let mut flight = Flight::new(Limit::default());
        flight.launched(us(0), CLASS);
        mark(&mut flight, us(0), 0);
        flight.landed_before(1, us(100), Seen::JustNow, &mut Vec::new()).unwrap();
        for command in 1..20 {
            flight.launched(us(command * 256), CLASS);
            mark(&mut flight, us(command * 256), command);
            let late = us(command * 256 + 250);
            let landed = flight.landed(late, Some(Nanos::from_micros(256))).unwrap();
            let took = landed.took;
            assert!((Nanos::from_micros(100)..Nanos::from_micros(102)).contains(&took), "{took}");
        }
    }

    #[test]
    fn who_launches_slowly_does_not_pay_for_gaps_between_commands_that_share_a_marker() {
        let n = 7;
        for device_time in [Some(Nanos::from_micros((n - 1) * 256 + 100)), None] {
            let mut flight = Flight::new(Limit::default());
            (0..n).for_each(|command| flight.launched(us(command * 256), CLASS));
            mark(&mut flight, us((n - 1) * 256 + 30), 1);
            let end = us((n - 1) * 256 + 100);
            flight.looked(end - Nanos(10));
            let landed = flight.landed(end, device_time).unwrap();
            assert_eq!(landed.took, Nanos::from_micros(n * 100));
        }
    }

    #[test]
    fn who_waits_for_all_learns_of_gaps_whatever_markers_are_between() {
        let mut flight = Flight::new(Limit::default());
        for command in 0..6 {
            flight.launched(us(command * 256), CLASS);
            if command % 2 == 0 {
                mark(&mut flight, us(command * 256), command);
            }
        }
        let mut retired = Vec::new();
        let took = flight.landed_before(6, us(5 * 256 + 100), Seen::JustNow, &mut retired);
        assert_eq!((took, retired), (Some(Nanos::from_micros(600)), vec![0, 2, 4]));
    }

    #[test]
    fn what_has_no_marker_gets_one_when_it_is_quiet() {
        let mut flight = Flight::new(Limit::default());
        assert_eq!(flight.quiet_at(), None);
        flight.launched(us(0), CLASS);
        assert_eq!(flight.quiet_at(), Some(us(0) + QUIET));
        mark(&mut flight, us(50), 1);
        assert_eq!(flight.quiet_at(), None);
    }

    #[test]
    fn who_has_waited_for_the_stream_knows_without_looking_at_markers() {
        let mut flight = Flight::new(Limit::default());
        for command in 0..5 {
            flight.launched(us(command), CLASS);
            if command == 1 {
                mark(&mut flight, us(command), command);
            }
        }
        let before = flight.launched_so_far() - 1;
        let mut retired = Vec::new();
        assert!(flight.landed_before(before, us(100), Seen::JustNow, &mut retired).is_some());
        assert_eq!((flight.first_marker(), retired), (None, vec![1]), "those with a marker, and the others");
        assert!(!flight.is_empty(), "one was launched later");
        assert!(flight.landed_before(before + 1, us(101), Seen::JustNow, &mut Vec::new()).is_some());
        assert!(flight.is_empty());
    }

    #[test]
    fn part_of_what_a_marker_stands_for_may_be_known_to_be_complete() {
        let mut flight = Flight::new(Limit::default());
        (0..4).for_each(|command| flight.launched(us(command), CLASS));
        mark(&mut flight, us(4), 9);
        let mut retired = Vec::new();
        assert!(flight.landed_before(3, us(50), Seen::JustNow, &mut retired).is_some());
        assert_eq!(flight.landed_before(3, us(51), Seen::JustNow, &mut retired), None);
        assert_eq!((flight.first_marker(), &retired[..]), (Some(9), &[][..]));
        assert!(flight.landed(us(60), None).is_some());
        assert!(flight.is_empty());
    }

    #[test]
    fn short_commands_share_a_gate_and_long_ones_have_their_own() {
        let mut flight: Flight<u32> = Flight::new(Limit::default());
        let gates = |flight: &mut Flight<u32>, every, length| {
            let mut gates = 0;
            for command in 0..40 {
                let begin = us(command * 1000);
                gates += usize::from(flight.wants_gate(CLASS, Nanos::from_micros(every)));
                flight.launched(begin, CLASS);
                mark(flight, begin, 1);
                flight.launched(begin, Class(2));
                flight.landed(begin + Nanos::from_micros(length), Some(Nanos::from_micros(length)));
            }
            gates
        };
        assert!(gates(&mut flight, 10, 2) <= 20);
        gates(&mut flight, 10, 100);
        assert_eq!(gates(&mut flight, 10, 100), 40);
    }

    /// Commands were long, and are short now: more of them come in a time than were thought to fit in.
    #[test]
    fn who_launches_all_the_time_is_looked_at_all_the_same() {
        for is_waited_for in [false, true] {
            let mut flight = Flight::new(Limit::default());
            flight.launched(us(0), CLASS);
            mark(&mut flight, us(0), 0);
            flight.landed(us(1_000), Some(Nanos::from_micros(1_000))).unwrap();
            let mut looks = 0;
            for command in 1..=1_000 {
                let time = us(2_000 + command * 100);
                flight.launched(time, CLASS);
                if command % 20 == 0 {
                    mark(&mut flight, time, command);
                }
                if flight.look_at(is_waited_for).is_some_and(|at| at <= time) {
                    looks += 1;
                    flight.looked(time);
                }
            }
            assert!(looks >= 9, "{looks} in 100 ms");
        }
    }

    #[test]
    fn a_marker_is_looked_at_when_what_is_before_it_may_be_complete() {
        let mut flight = Flight::new(Limit::default());
        flight.launched(us(0), CLASS);
        mark(&mut flight, us(0), 0);
        flight.landed(us(160), Some(Nanos::from_micros(160))).unwrap();
        (0..2).for_each(|_| flight.launched(us(1_000), CLASS));
        mark(&mut flight, us(1_000), 1);
        let at = flight.look_at(false);
        assert_eq!(at, Some(us(1_150 + 80)));
        (0..40).for_each(|_| flight.launched(us(1_010), CLASS));
        mark(&mut flight, us(1_010), 2);
        assert_eq!(flight.look_at(false), at, "whatever comes behind it");
        assert!(
            flight
                .landed_before(flight.launched_so_far() - 41, us(1_160), Seen::JustNow, &mut Vec::new())
                .is_some()
        );
        assert_eq!(flight.look_at(false), Some(us(1_160 + 150)), "one is left of the two");
    }

    #[test]
    fn what_is_late_is_looked_for_less_and_less_often() {
        let mut flight = Flight::new(Limit::default());
        flight.launched(us(0), CLASS);
        mark(&mut flight, us(0), 1);
        let mut looks = 0;
        while let Some(at) = flight.look_at(true).filter(|at| *at < us(20_000)) {
            assert!(at > us(0));
            flight.looked(at);
            looks += 1;
        }
        assert!((10..300).contains(&looks), "{looks} looks");
    }

    #[test]
    fn a_command_that_does_not_end_does_not_stop_the_others_for_ever() {
        let mut flight: Flight<u32> = Flight::new(Limit::default());
        while flight.has_room(us(0), CLASS, false) {
            flight.launched(us(0), CLASS);
        }
        let later = |times| us(0) + PATIENCE.times(times) + Nanos(1);
        assert!(!flight.has_room(us(100), CLASS, false) && flight.has_room(later(1), CLASS, false));
        flight.launched(later(1), CLASS);
        assert!(!flight.has_room(later(1), CLASS, false), "one at a time");
        assert!(flight.has_room(later(2), CLASS, false));
    }
}
