//! All that the controller knows and decides. It has no sockets and never waits.
//!
//! The page says what holds now; what is kept here is what processes have said about themselves, and what others have
//! said about them. Each change ends with [`Controller::settle`], which asks the scheduler and moves queues.

mod authority;
mod builds;
mod client;
mod clients;
mod departed;
mod listing;
mod orders;
mod origins;
mod promises;
mod queue;
mod reconfigure;
mod recording;
mod tokens;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{Notify, watch};
use xsched_arbiter::{Arbiter, Owner, now_ns};
use xsched_control_api::answer::{Counts, PageKeeper, Sight, State};
use xsched_control_api::standing::Wish;
use xsched_protocol::arbiter_page::{ArbiterChange, ArbiterEvent, QueueWord, Word};
use xsched_protocol::wire::{Keeper, RefusalReason, Welcome};
use xsched_sched::{Event, Nanos, QueueId, Scheduler};
use xsched_symbols::FileId;
use xsched_terminal::counted;

use super::config::Config;
use super::rules::Loaded;
use super::users::Users;
use crate::cgroup_version::Cgroups;
use crate::origin::{Origin, OriginNames};
use builds::Builds;
use client::Client;
use departed::Departed;
use queue::Queue;
use recording::Recording;
use tokens::Tokens;

pub(crate) use authority::Actor;
pub(crate) use orders::Attendance;
pub(super) use promises::WHOLE_PERCENT;
pub(crate) use recording::{Announcement, Recorded, Told};

/// How often the controller shows that it lives, and looks at what has happened, at least; five times in the silence that it
/// is allowed.
pub(crate) const HEARTBEAT: Nanos = Nanos::from_millis(20);

/// Names a connection of a process; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(u32);

impl ClientId {
    /// The same for who knows connections by their numbers.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A process that programs hear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// What programs call it.
    pub(crate) tgid: u32,
    /// The file of its shim.
    pub(crate) shim: FileId,
}

/// A process was taken in.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// What it is called from now on.
    pub(crate) id: ClientId,
    /// What to tell it.
    pub(crate) welcome: Welcome,
    /// What it may wait on.
    pub(crate) wake: OwnedFd,
    /// It has connected anew: this connection is over.
    pub(crate) replaced: Rc<Notify>,
}

/// All of it.
pub(crate) struct Controller {
    arbiter: Arbiter,
    scheduler: Scheduler,
    config: Config,
    /// A command has chosen the policy: what the configuration says of it waits for another start.
    is_policy_ordered: bool,
    users: Users,
    state: State,
    sight: Sight,
    /// See [`Counts::answered_again`].
    answered_again: Arc<AtomicU64>,
    /// What programs call libraries, by their numbers.
    origin_names: OriginNames,
    clients: BTreeMap<ClientId, Client>,
    /// By slot.
    queues: BTreeMap<u32, Queue>,
    tokens: Tokens,
    /// Processes that may connect again.
    departed: Departed,
    /// What was set for cgroups, the latest last.
    groups: Vec<(String, Wish)>,
    next_client: u32,
    builds: Builds,
    /// When the log last said that a user's processes are refused.
    mentioned: BTreeMap<u32, u64>,
    /// Who records.
    recording: Option<Recording>,
    next_recording: u32,
    counts: Counts,
    started_ns: u64,
    again: Option<Nanos>,
    /// [`Word::EVENTS_LOST`], when the page was last read whole.
    events_lost: u64,
    promises_warned: promises::Warned,
    /// Reused between calls.
    events: Vec<ArbiterEvent>,
}

impl Controller {
    /// One that knows nobody yet.
    pub(crate) fn new(mut arbiter: Arbiter, config: Config, users: Users) -> Self {
        let state = if config.observe { State::Observing } else { State::Active };
        // What a predecessor has opened: its processes connect anew, and open theirs again.
        let events_lost = arbiter.page().load(Word::EVENTS_LOST);
        let left: Vec<_> = arbiter.page().queues().collect();
        for queue in left {
            arbiter.close(xsched_arbiter::Queue { slot: queue.slot, generation: queue.word.generation() });
        }
        // Nobody has seen to it whether these files were written.
        for shim in arbiter.probed() {
            arbiter.unprobe(shim);
        }
        Self {
            arbiter,
            scheduler: Scheduler::new(config.policy, config.settings()),
            config,
            is_policy_ordered: false,
            users,
            state,
            sight: Sight::Callers,
            answered_again: Arc::default(),
            origin_names: watch::channel(Vec::new()).1,
            clients: BTreeMap::new(),
            queues: BTreeMap::new(),
            tokens: Tokens::default(),
            departed: Departed::default(),
            groups: Vec::new(),
            next_client: 0,
            builds: Builds::default(),
            mentioned: BTreeMap::new(),
            recording: None,
            next_recording: 0,
            counts: Counts::default(),
            started_ns: now_ns(),
            again: None,
            events_lost,
            promises_warned: promises::Warned::new(),
            events: Vec::new(),
        }
    }

    /// Programs walk the call chains of processes from now on.
    pub(crate) fn see_chains(&mut self, origin: &Origin) {
        self.sight = Sight::Chains;
        self.answered_again = origin.answered_again();
        self.origin_names = origin.origin_names();
    }

    /// What it is about to do, for the log.
    pub(crate) fn describe(&self) -> String {
        let (rules, ceilings) = self.config.counts();
        format!(
            "{}, policy {}, page kept by {}, rules see {}, {}, {}",
            self.state,
            self.scheduler.policy(),
            self.keeper(),
            self.sight,
            counted(rules as u64, "rule for processes", "rules for processes"),
            counted(ceilings as u64, "ceiling", "ceilings"),
        )
    }

    /// What its log should warn of.
    pub(crate) fn warnings(&self, rules: &Loaded) -> Vec<String> {
        let cgroups = Cgroups::here();
        let of_rules = rules.warnings(&self.users, cgroups);
        self.config.warnings(&self.users, cgroups).into_iter().chain(of_rules).collect()
    }

    fn keeper(&self) -> PageKeeper {
        match self.arbiter.keeper() {
            Keeper::Programs => PageKeeper::Programs,
            Keeper::Controller => PageKeeper::Controller,
        }
    }

    /// What processes map.
    pub(crate) fn page_fd(&self) -> BorrowedFd<'_> {
        self.arbiter.page_fd()
    }

    /// Whether it has to hear at once what happens to the page. If not, it is enough to hear it with each [`Self::beat`] and
    /// before anything else changes: whoever listens is woken before the launch that is reported.
    pub(crate) fn listens(&self) -> bool {
        self.scheduler.may_hear_late() < HEARTBEAT.times(2)
            || self.recording.is_some()
            || self.clients.values().any(Client::is_awaited)
    }

    /// Has the arbiter call from now on, or not any more: what to wait on, see [`Arbiter::calls_fd`].
    pub(crate) fn listen(&mut self, listens: bool) -> io::Result<Option<OwnedFd>> {
        self.arbiter.listen(listens);
        listens.then(|| self.arbiter.calls_fd().try_clone_to_owned()).transpose()
    }

    /// When the scheduler wants to be asked again, on the arbiter's clock.
    pub(crate) fn again(&self) -> Option<u64> {
        self.again.map(|at| at.0)
    }

    /// Shows that it lives, and looks after what nobody tells it. Returns a shim that nobody uses any more, which is to
    /// [`Self::unprobe`].
    pub(crate) fn beat(&mut self, now_ns: u64) -> Option<FileId> {
        if self.state == State::Active {
            self.arbiter.heartbeat();
        }
        self.departed.look_at_one();
        // Waiters see to this too, but nobody may be waiting.
        for queue in self.queues.values() {
            let state = self.arbiter.page().queue(queue.key.slot);
            let is_it = state.word.generation() == queue.key.generation;
            if is_it && state.word.is_ready() && state.lease_until_ns < now_ns {
                self.arbiter.expire(queue.key);
            }
        }
        let used = || self.clients.values().filter_map(|client| client.shim).collect();
        self.builds.spare(now_ns, used)
    }

    /// Takes the probe out of a shim. Returns whose it counted as, if it was probed and he is counted.
    pub(crate) fn unprobe(&mut self, shim: FileId) -> Option<u32> {
        self.arbiter.unprobe(shim);
        self.builds.remove(shim)
    }

    /// Nobody is held back any more.
    pub(crate) fn release(&mut self) {
        self.arbiter.release();
    }

    /// The end, in good order.
    pub(crate) fn end(self) {
        self.arbiter.end();
    }

    /// Takes in what happened to the page; true if a process may have joined.
    pub(crate) fn take_events(&mut self, now_ns: u64) -> bool {
        let mut events = std::mem::take(&mut self.events);
        self.arbiter.drain(&mut events);
        let mut has_joined = false;
        for event in &events {
            if event.change == ArbiterChange::Joined as u32 {
                has_joined = true;
                self.dismiss_unless_expected(Owner(event.owner), event.word);
            }
            self.note_change(event);
            // Events may be of a moment ago, and the scheduler's time goes forward only.
            self.take_event(event, Nanos(event.time_ns.min(now_ns)));
        }
        events.clear();
        self.events = events;
        let lost = self.arbiter.page().load(Word::EVENTS_LOST);
        if lost != self.events_lost {
            self.events_lost = lost;
            self.read_page(Nanos(now_ns));
            // One of them may have been a process's number.
            self.dismiss_unconnected();
            has_joined = true;
        }
        has_joined
    }

    /// Takes from the page what lost events would have told.
    fn read_page(&mut self, at: Nanos) {
        let page = self.arbiter.page();
        let states: Vec<_> =
            self.queues.values().map(|queue| (queue.key, page.queue(queue.key.slot).word)).collect();
        for (key, word) in states {
            let queue = QueueId(key.slot);
            if !word.is_open() || word.generation() != key.generation {
                self.forget_queue(at, key.slot);
            } else if word.is_ready() {
                self.scheduler.handle(at, Event::Ready { queue });
            } else {
                self.scheduler.handle(at, Event::Idle { queue });
            }
        }
    }

    fn take_event(&mut self, event: &ArbiterEvent, at: Nanos) {
        let Some(queue) = self.queues.get(&event.slot) else { return };
        let word = QueueWord(event.word);
        if word.generation() != queue.key.generation {
            return;
        }
        let queue = QueueId(event.slot);
        let is = |change: ArbiterChange| event.change == change as u32;
        if is(ArbiterChange::Ready) {
            self.scheduler.handle(at, Event::Ready { queue });
        } else if is(ArbiterChange::Idle) || is(ArbiterChange::Expired) {
            self.counts.expired += u64::from(is(ArbiterChange::Expired));
            self.scheduler.handle(at, Event::Idle { queue });
        } else if is(ArbiterChange::Closed) || is(ArbiterChange::Died) {
            self.counts.died += u64::from(is(ArbiterChange::Died));
            self.forget_queue(at, event.slot);
        }
    }

    /// Asks the scheduler, and moves queues to the levels that it says.
    pub(crate) fn settle(&mut self, now_ns: u64) {
        // Of a page in this process nothing tells but itself.
        if self.arbiter.keeper() == Keeper::Controller {
            self.take_events(now_ns);
        }
        let decisions = self.scheduler.decide(Nanos(now_ns));
        for (queue, level) in decisions.levels {
            let Some(moved) = self.queues.get(&queue.0) else { continue };
            match self.arbiter.set_level(moved.key, level.number() as u8) {
                Ok(()) => self.counts.moved += 1,
                // Its end is on its way here.
                Err(xsched_arbiter::ArbiterError::QueueGone) => {}
                Err(error) => {
                    tracing::error!("cannot move queue {}: {error}", queue.0);
                    self.counts.failed += 1;
                }
            }
        }
        self.again = decisions.again;
    }

    /// A connection has ended, and why.
    pub(crate) fn count_end(&mut self, refused: Option<RefusalReason>, is_slow: bool) {
        match refused {
            Some(RefusalReason::Malformed | RefusalReason::NotJoined) => self.counts.malformed += 1,
            Some(RefusalReason::Full) => self.counts.full += 1,
            Some(RefusalReason::Version) => self.counts.outdated += 1,
            None => {}
        }
        self.counts.slow += u64::from(is_slow);
    }
}

#[cfg(test)]
mod tests;
