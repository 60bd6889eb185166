//! All state and decisions of the controller. It has no sockets and never waits.
//!
//! The arbiter page holds the current state; this module keeps what processes have said about themselves, and what
//! commands have set for them. Each change ends with [`Controller::settle`], which asks the scheduler and moves claims.

mod authority;
mod builds;
mod changes;
mod claim;
mod client;
mod client_id;
mod clients;
mod counting;
mod departed;
mod known_pods;
mod listing;
mod measures;
mod meter;
mod orders;
mod origins;
mod pods;
mod promises;
mod reconfigure;
mod recording;
mod repeated;
mod tokens;
mod wakes;
mod wishes;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{Notify, watch};
use xsched_arbiter::{Arbiter, Owner};
use xsched_control_api::answer::{Counts, PageKeeper, Sight, State};
use xsched_control_api::peer::Party;
use xsched_protocol::{
    arbiter_page::{ArbiterChange, ArbiterEvent, ClaimWord},
    probe::Runtime,
    wire::{Keeper, Opened, RefusalReason, Welcome},
};
use xsched_sched::{ClaimChange, ClaimId, Nanos, Scheduler};
use xsched_symbols::FileId;
use xsched_symbols::now_ns;
use xsched_terminal::counted;

use super::config::Config;
use super::rules::Loaded;
use super::users::Users;
use crate::cgroup_version::Cgroups;
use crate::origin::{Origin, OriginNames};
use builds::Builds;
use changes::Changes;
use claim::Claim;
use client::Client;
pub(crate) use client_id::ClientId;
use known_pods::KnownPods;
use measures::Measures;
use meter::Meter;
use recording::Recordings;
use repeated::Repeated;
use wakes::Wakes;
use wishes::Wishes;

pub(crate) use authority::Actor;
pub(crate) use orders::Attendance;
pub(crate) use recording::{Announcement, Recorded, Told};

/// How often, at least, the controller writes the heartbeat and takes in events: five times in the silence after which
/// no process is deferred.
pub(crate) const HEARTBEAT: Nanos = Nanos::from_millis(20);

/// How long the log does not mention a refused user again.
const MENTION_AGAIN_NS: u64 = 3600 * 1_000_000_000;

/// How long the log does not repeat the warning for a device: processes come and go.
const PROMISES_QUIET_NS: u64 = 60_000_000_000;

/// A process that BPF programs see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// Its process id as BPF programs see it.
    pub(crate) tgid: u32,
    pub(crate) shim: FileId,
    pub(crate) runtime: Runtime,
    /// What it makes the programs keep counts for this.
    pub(crate) party: Party,
}

#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: ClientId,
    pub(crate) welcome: Welcome,
    /// Notified when the process connects again: this connection is over.
    pub(crate) replaced: Rc<Notify>,
}

/// The answer to a process that will use a device.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) opened: Opened,
    /// What comes with it, as [`Opened::brings`] says.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Why there is no gate page.
    pub(crate) no_gate: Option<io::Error>,
}

/// What is known of the call chains of processes.
struct CallSight {
    sight: Sight,
    /// See [`Counts::answered_again`].
    answered_again: Arc<AtomicU64>,
    /// Names of libraries by the numbers that BPF programs use.
    names: OriginNames,
}

impl Default for CallSight {
    /// Processes know their immediate callers only.
    fn default() -> Self {
        Self { sight: Sight::Callers, answered_again: Arc::default(), names: watch::channel(Vec::new()).1 }
    }
}

pub(crate) struct Controller {
    arbiter: Arbiter,
    scheduler: Scheduler,
    config: Config,
    /// A command has chosen the policy: a reload does not change it.
    is_policy_ordered: bool,
    users: Users,
    state: State,
    calls: CallSight,
    clients: BTreeMap<ClientId, Client>,
    /// By slot in the arbiter page.
    claims: BTreeMap<u32, Claim>,
    /// How busy devices with claims are, by device key.
    meters: BTreeMap<u64, Meter>,
    wishes: Wishes,
    latest_client: ClientId,
    builds: Builds,
    /// Log messages on refused processes, by user.
    refusals: Repeated<Party>,
    /// The epoll instances that parties were given.
    wakes: Wakes,
    /// Log messages on processes that were given none, by user.
    unwoken: Repeated<Party>,
    recordings: Recordings,
    counts: Counts,
    started_ns: u64,
    again: Option<Nanos>,
    /// Log messages on devices of which too much is promised, by the device's key.
    overpromises: Repeated<u64>,
    changes: Changes,
    pods: KnownPods,
    /// None if nothing asks for metrics.
    measures: Option<Measures>,
}

impl Controller {
    pub(crate) fn new(mut arbiter: Arbiter, config: Config, users: Users) -> Self {
        let state = if config.observe { State::Observing } else { State::Active };
        // A predecessor's claims: its processes connect again, and open theirs again.
        let changes = Changes::from_now(&arbiter);
        let left: Vec<_> = arbiter.page().claims().collect();
        for claim in left {
            arbiter
                .close(xsched_arbiter::ClaimName { slot: claim.slot, generation: claim.word.generation() });
        }
        // While no controller ran, a write to these files would not have been noticed.
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
            calls: CallSight::default(),
            clients: BTreeMap::new(),
            claims: BTreeMap::new(),
            wishes: Wishes::default(),
            latest_client: ClientId::default(),
            builds: Builds::default(),
            meters: BTreeMap::new(),
            refusals: Repeated::every(MENTION_AGAIN_NS),
            wakes: Wakes::default(),
            unwoken: Repeated::every(MENTION_AGAIN_NS),
            recordings: Recordings::default(),
            counts: Counts::default(),
            started_ns: now_ns(),
            again: None,
            overpromises: Repeated::every(PROMISES_QUIET_NS),
            changes,
            pods: KnownPods::default(),
            measures: None,
        }
    }

    /// From now on BPF programs walk the call chains of processes.
    pub(crate) fn see_chains(&mut self, origin: &Origin) {
        self.calls = CallSight {
            sight: Sight::Chains,
            answered_again: origin.answered_again(),
            names: origin.origin_names(),
        };
    }

    /// A description for the log.
    pub(crate) fn describe(&self) -> String {
        let (rules, ceilings) = self.config.counts();
        format!(
            "{}, policy {}, page kept by {}, rules see {}, {}, {}",
            self.state,
            self.scheduler.policy(),
            self.keeper(),
            self.calls.sight,
            counted(rules as u64, "rule for processes", "rules for processes"),
            counted(ceilings as u64, "ceiling", "ceilings"),
        )
    }

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

    pub(crate) fn page_fd(&self) -> BorrowedFd<'_> {
        self.arbiter.page_fd()
    }

    /// Whether events of the page must wake the controller. If not, it takes them in with each [`Self::beat`] and
    /// before anything else changes. A listener is woken before the launch that is reported.
    pub(crate) fn listens(&self) -> bool {
        self.scheduler.change_delay_max() < HEARTBEAT.times(2)
            || self.recordings.is_under_way()
            || self.clients.values().any(Client::is_awaited)
    }

    /// Starts or stops wake-ups by the arbiter. Returns the descriptor to wait on, see [`Arbiter::calls_fd`].
    pub(crate) fn listen(&mut self, listens: bool) -> io::Result<Option<OwnedFd>> {
        self.arbiter.listen(listens);
        listens.then(|| self.arbiter.calls_fd().try_clone_to_owned()).transpose()
    }

    /// When the scheduler wants to decide again, on the arbiter's clock.
    pub(crate) fn again(&self) -> Option<u64> {
        self.again.map(|at| at.0)
    }

    /// Writes the heartbeat, and does what no event triggers. Returns a shim that is no longer used: the caller removes
    /// its probe with [`Self::unprobe`].
    pub(crate) fn beat(&mut self, now_ns: u64) -> Option<FileId> {
        if self.state == State::Active {
            self.arbiter.heartbeat();
        }
        self.wishes.departed.look_at_one();
        // Waiting processes expire leases too, but there may be none.
        for claim in self.claims.values() {
            let state = self.arbiter.page().claim(claim.key.slot);
            let is_it = state.word.generation() == claim.key.generation;
            if is_it && state.word.is_ready() && state.lease_until_ns < now_ns {
                self.arbiter.expire(claim.key);
            }
        }
        let used = || self.clients.values().filter_map(|client| client.shim).collect();
        self.builds.spare(now_ns, used)
    }

    /// Removes the probe from a shim. Returns the party that it counted for, if it was probed and counted.
    pub(crate) fn unprobe(&mut self, shim: FileId) -> Option<Party> {
        self.arbiter.unprobe(shim);
        self.builds.remove(shim)
    }

    /// Opens all gates: no process is deferred any more.
    pub(crate) fn release(&mut self) {
        self.arbiter.release();
    }

    pub(crate) fn end(self) {
        self.arbiter.end();
    }

    /// Takes in the events of the page; true if a process may have joined.
    pub(crate) fn take_events(&mut self, now_ns: u64) -> bool {
        let events = self.changes.take(&mut self.arbiter);
        let mut has_joined = false;
        for event in &events {
            if event.change == ArbiterChange::Joined as u32 {
                has_joined = true;
                self.dismiss_unless_expected(Owner(event.owner), event.word);
            }
            self.note_change(event);
            // Events may be older than the last decision, and the scheduler's clock must not go backwards.
            self.take_event(event, Nanos(event.time_ns.min(now_ns)));
        }
        self.changes.reuse(events);
        if self.changes.have_been_lost(&self.arbiter) {
            self.read_page(Nanos(now_ns));
            // A lost event may have carried a process's token.
            self.dismiss_unconnected();
            has_joined = true;
        }
        has_joined
    }

    /// Reads from the page what lost events would have reported.
    fn read_page(&mut self, at: Nanos) {
        let page = self.arbiter.page();
        let states: Vec<_> =
            self.claims.values().map(|claim| (claim.key, page.claim(claim.key.slot).word)).collect();
        for (key, word) in states {
            let claim = ClaimId(key.slot);
            if !word.is_open() || word.generation() != key.generation {
                self.forget_claim(at, key.slot);
            } else if word.is_ready() {
                self.scheduler.handle(at, ClaimChange::Ready { claim });
            } else {
                self.scheduler.handle(at, ClaimChange::Idle { claim });
            }
        }
    }

    fn take_event(&mut self, event: &ArbiterEvent, at: Nanos) {
        let Some(claim) = self.claims.get(&event.slot) else { return };
        let word = ClaimWord(event.word);
        if word.generation() != claim.key.generation {
            return;
        }
        let claim = ClaimId(event.slot);
        let is = |change: ArbiterChange| event.change == change as u32;
        if is(ArbiterChange::Ready) {
            self.scheduler.handle(at, ClaimChange::Ready { claim });
        } else if is(ArbiterChange::Idle) || is(ArbiterChange::Expired) {
            self.counts.expired += u64::from(is(ArbiterChange::Expired));
            self.scheduler.handle(at, ClaimChange::Idle { claim });
        } else if is(ArbiterChange::Closed) || is(ArbiterChange::Died) {
            self.counts.died += u64::from(is(ArbiterChange::Died));
            self.forget_claim(at, event.slot);
        }
    }

    /// Asks the scheduler, and moves claims to the levels that it decides.
    pub(crate) fn settle(&mut self, now_ns: u64) {
        // A page in this process causes no wake-ups.
        if self.arbiter.keeper() == Keeper::Controller {
            self.take_events(now_ns);
        }
        let decisions = self.scheduler.decide(Nanos(now_ns));
        for (claim, level) in decisions.levels {
            let Some(moved) = self.claims.get(&claim.0) else { continue };
            match self.arbiter.set_level(moved.key, level.number() as u8) {
                Ok(()) => self.counts.moved += 1,
                // The event of its end is on its way.
                Err(xsched_arbiter::ArbiterError::ClaimGone) => {}
                Err(error) => {
                    tracing::error!("cannot move claim {}: {error}", claim.0);
                    self.counts.failed += 1;
                }
            }
        }
        self.again = decisions.again;
        self.count_happenings();
    }

    pub(crate) fn count_end(&mut self, refused: Option<RefusalReason>, is_slow: bool) {
        match refused {
            Some(RefusalReason::Malformed) => self.counts.malformed += 1,
            Some(RefusalReason::Full) => self.counts.full += 1,
            Some(RefusalReason::Version) => self.counts.outdated += 1,
            // It has ended, executed another program or connected again before its packet was handled.
            Some(RefusalReason::NotJoined) | None => {}
        }
        self.counts.slow += u64::from(is_slow);
    }
}

#[cfg(test)]
mod tests;
