//! A client: an application with one claim, and the shim's part in it.

use std::collections::VecDeque;

use super::recorded::{self, Gates, Run};
use super::{Act, Happening, Simulation};
use crate::{Attributes, ClaimChange, ClaimId, InFlight, Launch, Level, Limit, Nanos};

/// The behaviour of a client.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) attributes: Attributes,
    pub(super) opens: Nanos,
    pub(super) closes: Option<Nanos>,
    pub(super) work: Work,
    /// Whether its commands wait on the device while more urgent clients have work.
    pub(super) gates: Gates,
    /// Kernels take this long, and up to a fifth more or less.
    #[cfg(test)]
    pub(super) kernel: Nanos,
    /// What it does when it is allowed to launch.
    pub(super) misses: Misses,
    #[cfg(test)]
    pub(super) seed: u64,
}

/// A process that gets no processor in time: it sleeps through a number of chances in a row, for a time each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Misses {
    pub(super) in_a_row: u32,
    pub(super) asleep: Nanos,
}

/// How work comes.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// There is always more.
    #[cfg(test)]
    Saturating,
    /// Each request is this many kernels. The next one comes after a pause of up to twice this length.
    #[cfg(test)]
    Requests { kernels: u32, pause: Nanos },
    /// The same, with another number of kernels from a time on, and pauses that are long enough to end a request.
    #[cfg(test)]
    Step { kernels: [u32; 2], at: Nanos, pause: Nanos },
    /// As recorded.
    Recorded(recorded::Program),
}

/// A command that was not launched yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    pub(super) time: Nanos,
    /// From its launch until the device has it.
    pub(super) launch: Nanos,
    /// Commands of a class take equally long, as far as the client knows.
    pub(super) class: u64,
    /// Which one it is of a recorded program.
    pub(super) submission: Option<recorded::Submission>,
}

/// Its state.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) plan: Plan,
    pub(super) level: Option<Level>,
    /// Its last report.
    pub(super) ready: bool,
    /// It waits for more urgent clients.
    pub(super) blocked: bool,
    /// Its commands in flight are limited.
    pub(super) limited: bool,
    pub(super) opened: bool,
    pub(super) closed: bool,
    pub(super) appointment: u64,
    /// Whether it might launch when masks last changed; how many such chances it still misses, and until when it sleeps.
    has_chance: bool,
    misses_left: u32,
    asleep_until: Nanos,
    /// When kernels have completed that were not noticed yet, and when the last noticed one had, by the device's clock.
    pub(super) completed: VecDeque<Nanos>,
    noticed: Option<Nanos>,
    /// Kernels that are not launched yet.
    pub(super) buffer: VecDeque<Kernel>,
    pub(super) flight: InFlight,
    in_flight_time: VecDeque<Nanos>,
    /// Device time and launches that it has not reported, whether there is anything else to report, and when it may report again.
    used: Nanos,
    launched: u64,
    is_unreported: bool,
    reports_from: Nanos,
    /// When its watcher wakes up by itself: only the plan of this number counts.
    pub(super) wake: u64,
    /// The state of a recorded program.
    pub(super) run: Run,
    /// Since when it is blocked, and by which client.
    pub(super) waits: Option<(Nanos, Option<usize>)>,
    #[cfg(test)]
    random: fastrand::Rng,
}

/// Kernels that an application that always has more keeps in flight without a limit.
pub(super) const UNLIMITED: usize = 16;

/// How often use is reported at most, and for how long at most the watcher of a client with work sleeps.
pub(super) const REPORT_EVERY: Nanos = Nanos::from_millis(10);

#[cfg(test)]
impl Plan {
    /// The longest time of its kernels.
    pub(super) fn longest(&self) -> Nanos {
        self.kernel + self.kernel / 5
    }
}

impl Client {
    pub(super) fn new(plan: Plan) -> Self {
        let limit = if plan.gates == Gates::Close { Limit::GATED } else { Limit::default() };
        Self {
            #[cfg(test)]
            random: fastrand::Rng::with_seed(plan.seed),
            run: Run::default(),
            waits: None,
            has_chance: false,
            misses_left: plan.misses.in_a_row,
            asleep_until: Nanos::ZERO,
            plan,
            level: None,
            ready: false,
            blocked: false,
            limited: false,
            opened: false,
            closed: false,
            appointment: 0,
            completed: VecDeque::new(),
            noticed: None,
            buffer: VecDeque::new(),
            flight: InFlight::new(limit),
            in_flight_time: VecDeque::new(),
            used: Nanos::ZERO,
            launched: 0,
            is_unreported: false,
            reports_from: Nanos::ZERO,
            wake: 0,
        }
    }

    pub(super) fn device(&self) -> usize {
        self.plan.attributes.device.0.into()
    }

    #[cfg(test)]
    fn kernel(&mut self) -> Kernel {
        let fifth = self.plan.kernel.0 / 5;
        let time = Nanos(self.plan.kernel.0 - fifth + self.random.u64(0..=2 * fifth));
        Kernel { time, launch: Nanos::ZERO, class: 0, submission: None }
    }

    /// The shim looks: what has completed since it last did. Markers tell it by the device's clock when each command has, which may
    /// be long ago.
    fn notice(&mut self, now: Nanos) {
        if self.completed.is_empty() {
            self.used += self.flight.completed(now, 0);
        }
        for ended in self.completed.drain(..) {
            self.used += match self.noticed.replace(ended) {
                Some(before) => self.flight.completed_in(now, 1, ended - before),
                None => self.flight.completed(now, 1),
            };
            self.in_flight_time.pop_front();
        }
    }

    /// How many kernels may be in flight without a limit.
    fn most_in_flight(&self) -> usize {
        if matches!(self.plan.work, Work::Recorded(_)) { usize::MAX } else { UNLIMITED }
    }

    fn exists(&self) -> bool {
        self.opened && !self.closed
    }

    /// Whether it may launch has been computed. If that has changed it falls asleep, or is awake for once.
    fn gets_a_chance(&mut self, now: Nanos, is_allowed: bool) {
        let is_new = std::mem::replace(&mut self.has_chance, is_allowed) != is_allowed;
        if !is_new || !is_allowed || now < self.asleep_until {
            return;
        }
        if self.misses_left > 0 {
            self.misses_left -= 1;
            self.asleep_until = now + self.plan.misses.asleep;
        } else {
            self.misses_left = self.plan.misses.in_a_row;
        }
    }
}

impl Simulation {
    pub(super) fn open(&mut self, index: usize) {
        self.clients[index].opened = true;
        self.trace.act(self.now, index, Act::Opened);
        let attributes = self.clients[index].plan.attributes;
        self.tell(ClaimChange::Opened { claim: name(index), attributes });
        match &self.clients[index].plan.work {
            Work::Recorded(program) => {
                let streams = program.streams.len();
                self.clients[index].run = Run::of(program);
                (0..streams).for_each(|stream| self.plan_submission(index, stream));
            }
            #[cfg(test)]
            _ => self.plan_in(Nanos::ZERO, Happening::Arrives(index)),
        }
    }

    pub(super) fn close(&mut self, index: usize) {
        self.set_ready(index, false);
        self.clients[index].closed = true;
        self.trace.act(self.now, index, Act::Closed);
        self.tell(ClaimChange::Closed { claim: name(index) });
    }

    #[cfg(test)]
    pub(super) fn arrive(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let count = match client.plan.work {
            Work::Saturating => 1,
            Work::Requests { kernels, .. } => kernels,
            Work::Step { kernels, at, .. } => kernels[usize::from(self.now >= at)],
            Work::Recorded(_) => 0,
        };
        for _ in 0..count {
            let kernel = client.kernel();
            client.buffer.push_back(kernel);
        }
        self.make_appointment(index, self.now);
    }

    pub(super) fn make_appointment(&mut self, index: usize, time: Nanos) {
        self.count += 1;
        self.clients[index].appointment = self.count;
        self.plan(time, Happening::Looks(index, self.count));
    }

    /// A client that waits for a mask to change looks again soon, if it is awake.
    pub(super) fn wake(&mut self, device: usize) {
        self.set_gates(device);
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.device() != device || !client.blocked {
                continue;
            }
            let is_allowed = client.level.is_some_and(|level| self.masks[device].allows(level));
            client.gets_a_chance(self.now, is_allowed);
            self.trace.act(self.now, index, if is_allowed { Act::Chance } else { Act::Kept });
            self.make_appointment(index, self.now + self.world.delays.wake);
        }
    }

    /// Notices completions, launches what it may, and plans the next look.
    pub(super) fn look(&mut self, index: usize) {
        let others = self.others(index);
        let client = &mut self.clients[index];
        if client.closed {
            return;
        }
        if self.now < client.asleep_until {
            let asleep_until = client.asleep_until;
            return self.make_appointment(index, asleep_until);
        }
        if client.ready {
            self.watch(index);
        }
        let client = &mut self.clients[index];
        client.notice(self.now);
        let wants_more = self.launch(index, others);

        let client = &mut self.clients[index];
        let now = self.now;
        let next = if wants_more && !client.blocked {
            client.flight.capacity_at(now)
        } else {
            client.flight.done_at(now, client.flight.least(0..client.flight.outstanding()))
        };
        if let Some(next) = next {
            self.make_appointment(index, next + self.world.delays.notice);
        } else if client.buffer.is_empty() && client.ready {
            self.finished(index);
        }
    }

    /// Returns whether there is more to launch.
    fn launch(&mut self, index: usize, others: bool) -> bool {
        loop {
            let device = self.clients[index].device();
            let client = &mut self.clients[index];
            #[cfg(test)]
            if matches!(client.plan.work, Work::Saturating) && client.buffer.is_empty() {
                let kernel = client.kernel();
                client.buffer.push_back(kernel);
            }
            let Some(kernel) = client.buffer.front().copied() else { return false };
            if !client.ready {
                self.set_ready(index, true);
            }
            let client = &mut self.clients[index];
            let allowed = client.level.is_some_and(|level| self.masks[device].allows(level));
            if client.blocked == allowed {
                client.blocked = !allowed;
                client.flight.disturbed(self.now);
                self.note_wait(index);
                self.trace.act(self.now, index, if allowed { Act::Allowed } else { Act::Blocked });
            }
            let client = &mut self.clients[index];
            let limited = others && client.level.is_some_and(Level::is_limited);
            client.limited = limited;
            let fits = if limited {
                client.flight.may_launch(self.now, kernel.class)
            } else {
                client.flight.outstanding() < client.most_in_flight()
            };
            if !allowed || !fits {
                return true;
            }
            client.buffer.pop_front();
            client.is_unreported = true;
            client.launched += 1;
            let is_gated = limited && client.plan.gates == Gates::Close;
            let launch = Launch { class: kernel.class, payer: 0, begun: self.now, is_gated };
            client.flight.launched_for(self.now, launch);
            client.in_flight_time.push_back(kernel.time);
            let count = client.flight.outstanding();
            let time = client.in_flight_time.iter().skip(1).copied().sum();
            self.trace.act(self.now, index, Act::Launched { limited, count, time });
            self.submit(device, index, kernel, is_gated);
        }
    }

    /// All is done. It stays ready for a while.
    fn finished(&mut self, index: usize) {
        self.count += 1;
        self.clients[index].appointment = self.count;
        self.plan_in(self.world.delays.linger, Happening::Lingers(index, self.count));
        #[cfg(test)]
        {
            let (least, pause) = match self.clients[index].plan.work {
                Work::Requests { pause, .. } => (Nanos::ZERO, pause),
                Work::Step { pause, .. } => (self.world.delays.linger, pause),
                Work::Saturating | Work::Recorded(_) => return,
            };
            let pause = Nanos(self.clients[index].random.u64(1..=2 * pause.0));
            self.plan_in(least + pause, Happening::Arrives(index));
        }
    }

    pub(super) fn linger(&mut self, index: usize, appointment: u64) {
        if self.clients[index].appointment == appointment {
            self.set_ready(index, false);
        }
    }

    /// The watcher is awake. It reports what there is, if it has not done that lately, and comes again when it may have to.
    pub(super) fn watch(&mut self, index: usize) {
        let now = self.now;
        let client = &mut self.clients[index];
        if client.closed {
            return;
        }
        client.is_unreported |= client.blocked || !client.used.is_zero();
        if client.reports_from <= now {
            client.reports_from = now + REPORT_EVERY;
            if std::mem::take(&mut client.is_unreported) {
                let device = std::mem::take(&mut client.used);
                let commands = std::mem::take(&mut client.launched);
                self.say(ClaimChange::Used { claim: name(index), device, commands });
            }
        }
        let client = &self.clients[index];
        if client.ready || client.is_unreported {
            self.wake_watcher(index, REPORT_EVERY);
        }
    }

    fn wake_watcher(&mut self, index: usize, delay: Nanos) {
        self.count += 1;
        self.clients[index].wake = self.count;
        self.plan_in(delay, Happening::Wakes(index, self.count));
    }

    fn set_ready(&mut self, index: usize, ready: bool) {
        let client = &mut self.clients[index];
        if client.ready == ready {
            return;
        }
        client.ready = ready;
        client.blocked = false;
        self.note_wait(index);
        let client = &mut self.clients[index];
        let device = client.device();
        if let Some(level) = client.level {
            if ready { self.masks[device].add(level) } else { self.masks[device].remove(level) }
        }
        let claim = name(index);
        self.trace.act(self.now, index, if ready { Act::Ready } else { Act::Idle });
        self.tell(if ready { ClaimChange::Ready { claim } } else { ClaimChange::Idle { claim } });
        if ready {
            self.wake_watcher(index, self.world.delays.wake);
        }
        self.wake(device);
    }

    /// Whether another client uses its device.
    fn others(&self, index: usize) -> bool {
        let device = self.clients[index].device();
        let there = |client: &&Client| client.device() == device && client.exists();
        self.clients.iter().filter(there).nth(1).is_some()
    }
}

fn name(index: usize) -> ClaimId {
    ClaimId(index as u32)
}
