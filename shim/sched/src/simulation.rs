//! A simulation of devices, clients and an arbiter around a [`Scheduler`]: the same clients give the same run. Tests let it run made
//! up clients by seed; with the feature `simulation` it runs recorded programs (`recorded.rs`).
//!
//! What takes time in reality takes time here: a report until the controller has it, a decision until it takes effect, a change
//! until a suspended client is awake, a completion until it is noticed. Masks are as exact as the arbiter's: a report changes
//! them at once.
//!
//! ```text
//!   Client (client.rs)  --launch-->  Device (device.rs): kernels of all queues in turn, one at a time
//!     |  ready, idle      <--done--
//!     v
//!   masks  <--levels--  Scheduler, with a delay in both directions
//! ```
//!
//! A device runs one kernel at a time and takes the next one from the queues in turn, as hardware does without priorities.

mod client;
mod device;
#[cfg(test)]
mod properties;
mod recorded;
#[cfg(test)]
mod replay;
mod trace;
#[cfg(test)]
pub(crate) mod worlds;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::mask::Mask;
#[cfg(test)]
use crate::policy::Policy;
use crate::{ClaimChange, ClaimId, Level, Nanos, PolicyKind, Scheduler, Settings};
use client::{Client, Plan};
use device::Device;
pub use recorded::{Execution, Gates, Model, Modelled, Recorded, Release, Step, Wait};
pub(crate) use trace::{Act, Trace};

/// What is simulated.
#[derive(Debug)]
pub(crate) struct World {
    policy: PolicyKind,
    pub(crate) settings: Settings,
    delays: Delays,
    plans: Vec<Plan>,
    pub(crate) until: Nanos,
    /// Replaces the policy.
    #[cfg(test)]
    planted: Option<fn() -> Box<dyn Policy>>,
}

#[cfg(test)]
impl World {
    /// The same under another policy.
    fn under(self, policy: PolicyKind) -> Self {
        Self { policy, ..self }
    }
}

/// The delays.
#[derive(Clone, Copy, Debug)]
struct Delays {
    /// From a report until the scheduler has it.
    hear: Nanos,
    /// From a decision until the masks show it.
    obey: Nanos,
    /// From a change of a mask until a waiting client launches.
    wake: Nanos,
    /// From a completion until a client that looks for it notices it.
    notice: Nanos,
    /// How long a client that has finished stays ready.
    linger: Nanos,
    /// How late the scheduler decides at a time that it has asked for.
    late: Nanos,
    /// From a change of a mask until the device notices that a gate is open.
    gate: Nanos,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            hear: Nanos::from_micros(20),
            obey: Nanos::from_micros(5),
            wake: Nanos::from_micros(10),
            notice: Nanos::from_micros(5),
            linger: Nanos::from_micros(30),
            late: Nanos::ZERO,
            gate: Nanos::from_micros(5),
        }
    }
}

#[cfg(test)]
impl Delays {
    /// From a report until all its effects.
    fn sum(&self) -> Nanos {
        self.hear + self.obey + self.wake
    }
}

/// A planned occurrence. Clients and devices are known by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Opens(usize),
    Closes(usize),
    /// A client's next request.
    #[cfg(test)]
    Arrives(usize),
    /// A recorded client's next command on this stream.
    Submits(usize, usize),
    /// A client looks at masks, completions and its buffer; only its last appointment counts.
    Looks(usize, u64),
    /// A client may have been idle for long enough.
    Lingers(usize, u64),
    /// A client's watcher wakes up; only the last plan counts.
    Wakes(usize, u64),
    KernelEnds(usize),
    /// A device may have something to start: a command has reached it, or a gate is open.
    Starts(usize),
    /// The scheduler looks at what has changed.
    Heard,
    /// The scheduler gets a report of use.
    Said,
    /// The time that the scheduler asked for.
    Due(u64),
    /// A decision takes effect.
    Obeyed(ClaimId, Level),
}

/// The state of a run.
struct Simulation {
    world: World,
    now: Nanos,
    agenda: BinaryHeap<Reverse<(Nanos, u64, Happening)>>,
    /// Number of occurrences so far: those of one time happen in this order.
    count: u64,
    scheduler: Scheduler,
    /// Changes that the scheduler has not got yet, and when each happened: it gets all of them when it looks.
    changes: Vec<(Nanos, ClaimChange)>,
    /// Reports of use on their way.
    packets: VecDeque<ClaimChange>,
    appointment: u64,
    clients: Vec<Client>,
    devices: Vec<Device>,
    masks: Vec<Mask>,
    trace: Trace,
    /// What recorded clients did.
    modelled: Modelled,
}

/// Runs a world to its end.
#[cfg(test)]
pub(crate) fn run(world: World) -> Trace {
    let Simulation { mut trace, world, .. } = Simulation::run(world);
    trace.end(world.until, world.plans);
    trace
}

impl Simulation {
    fn run(world: World) -> Self {
        let scheduler = Scheduler::new(world.policy, world.settings);
        let devices =
            world.plans.iter().map(|plan| usize::from(plan.attributes.device.0) + 1).max().unwrap_or(0);
        let mut simulation = Simulation {
            now: Nanos::ZERO,
            agenda: BinaryHeap::new(),
            count: 0,
            scheduler,
            changes: Vec::new(),
            packets: VecDeque::new(),
            appointment: 0,
            clients: world.plans.iter().cloned().map(Client::new).collect(),
            devices: (0..devices).map(|_| Device::new(world.plans.len())).collect(),
            masks: (0..devices).map(|_| Mask::new()).collect(),
            trace: Trace::default(),
            modelled: Modelled::default(),
            world,
        };
        for client in 0..simulation.clients.len() {
            let plan = &simulation.clients[client].plan;
            let (opens, closes) = (plan.opens, plan.closes);
            simulation.plan(opens, Happening::Opens(client));
            if let Some(closes) = closes {
                simulation.plan(closes, Happening::Closes(client));
            }
        }
        while let Some(Reverse((time, _, happening))) = simulation.agenda.pop() {
            if time > simulation.world.until {
                break;
            }
            simulation.now = time;
            simulation.happen(happening);
        }
        simulation
    }

    fn plan(&mut self, time: Nanos, happening: Happening) {
        self.count += 1;
        self.agenda.push(Reverse((time.max(self.now), self.count, happening)));
    }

    fn plan_in(&mut self, delay: Nanos, happening: Happening) {
        self.plan(self.now + delay, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Opens(client) => self.open(client),
            Happening::Closes(client) => self.close(client),
            #[cfg(test)]
            Happening::Arrives(client) => self.arrive(client),
            Happening::Submits(client, stream) => self.submit_recorded(client, stream),
            Happening::Looks(client, appointment) => {
                if self.clients[client].appointment == appointment {
                    self.look(client);
                }
            }
            Happening::Lingers(client, appointment) => self.linger(client, appointment),
            Happening::Wakes(client, wake) => {
                if self.clients[client].wake == wake {
                    self.watch(client);
                }
            }
            Happening::KernelEnds(device) => self.kernel_ends(device),
            Happening::Starts(device) => self.start(device),
            Happening::Heard => self.attend(None),
            Happening::Said => {
                let said = self.packets.pop_front();
                self.attend(said);
            }
            Happening::Due(appointment) => {
                if self.appointment == appointment {
                    self.attend(None);
                }
            }
            Happening::Obeyed(claim, level) => self.obey(claim, level),
        }
    }

    /// The arbiter notes a change with its time, and wakes the scheduler.
    fn tell(&mut self, change: ClaimChange) {
        self.changes.push((self.now, change));
        self.plan_in(self.world.delays.hear, Happening::Heard);
    }

    /// A client says something itself, which the scheduler takes in as of then.
    fn say(&mut self, said: ClaimChange) {
        self.packets.push_back(said);
        self.plan_in(self.world.delays.hear, Happening::Said);
    }

    /// The scheduler is awake: it takes in all changes until now as of their times, then what it was said, and decides.
    fn attend(&mut self, said: Option<ClaimChange>) {
        let changes = std::mem::take(&mut self.changes);
        let said = said.map(|said| (self.now, said));
        for (at, change) in changes.into_iter().chain(said) {
            self.scheduler.handle(at, change);
            self.trace.step(at, Some(change));
            #[cfg(test)]
            if let (Some(planted), ClaimChange::Opened { .. }) = (self.world.planted, change) {
                self.scheduler.plant(at, planted);
            }
        }
        self.decide();
        #[cfg(test)]
        {
            let charged = self.charged();
            self.trace.charges.push((self.now, charged));
        }
    }

    /// The present charge of each client.
    #[cfg(test)]
    fn charged(&self) -> Vec<Nanos> {
        let mut charged = vec![Nanos::ZERO; self.clients.len()];
        for claim in self.scheduler.claims() {
            charged[claim.id.0 as usize] = claim.charged;
        }
        charged
    }

    fn decide(&mut self) {
        let decisions = self.scheduler.decide(self.now);
        self.trace.step(self.now, None);
        self.trace.decided(self.now, &decisions.levels);
        for (claim, level) in decisions.levels {
            self.plan_in(self.world.delays.obey, Happening::Obeyed(claim, level));
        }
        if let Some(again) = decisions.again {
            assert!(again > self.now, "it asks for the present time, for ever");
            self.appointment += 1;
            self.plan(again + self.world.delays.late, Happening::Due(self.appointment));
        }
    }

    fn obey(&mut self, claim: ClaimId, level: Level) {
        let client = &mut self.clients[claim.0 as usize];
        if client.closed {
            return;
        }
        let mask = &mut self.masks[client.device()];
        if client.ready {
            mask.add(level);
            if let Some(before) = client.level {
                mask.remove(before);
            }
        }
        client.level = Some(level);
        let device = client.device();
        self.trace.act(self.now, claim.0 as usize, Act::Level(level));
        self.wake(device);
    }
}
