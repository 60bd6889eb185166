//! What processes with the shim report, and how the controller handles it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use xsched_arbiter::{ArbiterError, Owner, ProbedShim, ShimSearch};
use xsched_control_api::{
    answer::{PageKeeper, State},
    parameters::{Parameters, Wish},
    peer::{Party, Peer},
};
use xsched_protocol::{
    arbiter_page::{CLAIM_MAX, DEVICE_MAX, Report},
    probe::Runtime,
    wire::{Hello, Hints, Keeper, OpenClaim, Opened, PacketKind, RefusalReason, Reported, Usage, Welcome},
};
use xsched_sched::{ClaimChange, ClaimId, Level, Nanos};
use xsched_symbols::FileId;
use xsched_symbols::now_ns;

use super::authority::{Actor, OrderError};
use super::claim::{Claim, Used};
use super::client::{Client, Link, claim_hints, hints};
use super::{Admitted, Answered, ClientId, Controller, Heard};
use crate::room::Division;
use crate::subject::{Seen, Subject};

/// Most processes of one party at once.
const CLIENTS_PER_PARTY_MAX: usize = 1024;

/// Most claims of one process: eight devices at eight stream priorities.
const CLAIMS_PER_CLIENT_MAX: usize = 64;

/// Claims: each party is guaranteed as many as one process can have.
const CLAIMS: Division = Division { room: CLAIM_MAX - 256, each: CLAIMS_PER_CLIENT_MAX };

/// Devices, counted for the party that names one first. Others on the same device use none of theirs. Processes may name
/// devices that do not exist.
const DEVICES: Division = Division { room: DEVICE_MAX - 64, each: 4 };

/// Range of a program's own stream priorities; HIP's go from -1 to 1.
const STREAM_PRIORITY_MAX: i32 = 255;

impl Controller {
    /// How to find a process's shim, if BPF programs are to see its reports.
    pub(crate) fn search(&self, peer: &Peer) -> Option<ShimSearch> {
        self.arbiter.search(peer.pid).ok()
    }

    /// Admits a process. If no shim was found, BPF programs cannot see its reports.
    pub(crate) fn admit(
        &mut self,
        peer: &Peer,
        hello: &Hello,
        shim: Option<ProbedShim>,
    ) -> Result<Admitted, RefusalReason> {
        let account = Actor::of(peer).account();
        let of_party = self.clients.values().filter(|client| client.actor().account() == account).count();
        if of_party >= CLIENTS_PER_PARTY_MAX {
            self.log_refusal(peer.pid, peer.party, CLIENTS_PER_PARTY_MAX, "processes");
            return Err(RefusalReason::Full);
        }
        let runtime = Runtime::from_number(hello.runtime).ok_or(RefusalReason::Malformed)?;
        self.replace(peer.pid, runtime);
        let id = self.latest_client.next();
        self.latest_client = id;
        // Reports that BPF programs cannot see come over the socket.
        let expected = shim.map(|shim| self.arbiter.expect(shim)).transpose();
        let (link, number) = match expected {
            Ok(Some(number)) => (Link::Awaited(number), number),
            Ok(None) => (self.speak(id), 0),
            Err(error) => {
                tracing::debug!("{}: {error}", peer.describe());
                (self.speak(id), 0)
            }
        };
        let token = Some(hello.token).filter(|token| *token != [0; 16]);
        if let Some(token) = &token {
            self.wishes.tokens.join(token, id);
        }
        let replaced = Rc::default();
        let client = Client {
            subject: self.subject(peer.pid, peer.uid),
            runtime,
            link,
            shim: shim.map(|shim| shim.id()),
            hears: BTreeSet::new(),
            hint: hints(&Hints::from(hello)),
            token,
            set: self.wishes.departed.take(peer),
            peer: peer.clone(),
            claims: BTreeSet::new(),
            origins: BTreeMap::new(),
            recording: None,
            replaced: Rc::clone(&replaced),
        };
        self.counts.joined += 1;
        self.pods.complain_of(&client.subject);
        self.clients.insert(id, client);
        let welcome = Welcome {
            kind: PacketKind::Welcome as u32,
            keeper: self.arbiter.keeper() as u32,
            epoch: self.arbiter.page().load(xsched_protocol::arbiter_page::Word::EPOCH),
            token: number,
            in_flight_ns: self.config.in_flight.map_or(0, |time| time.as_nanos() as u64),
            preemption_mode: self.config.preemption_mode,
            observe: u32::from(self.state == State::Observing),
            poll_below_ns: self.config.poll.as_nanos() as u64,
        };
        Ok(Admitted { id, welcome, replaced })
    }

    /// A process that connects again from the same shim has given up its former connection, whether or not the kernel has noticed.
    fn replace(&mut self, pid: u32, runtime: Runtime) {
        let former = self.of_process(pid).into_iter().find(|id| self.clients[id].runtime == runtime);
        if let Some(id) = former {
            self.clients[&id].replaced.notify_one();
            self.leave(id);
        }
    }

    /// The connections of a process; none without an id.
    pub(super) fn of_process(&self, pid: u32) -> Vec<ClientId> {
        let all = self.clients.iter().filter(|(_, client)| pid != 0 && client.subject.pid == pid);
        all.map(|(id, _)| *id).collect()
    }

    /// Whether the arbiter knows a process.
    pub(crate) fn has_joined(&mut self, id: ClientId) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return true };
        if let Link::Awaited(number) = client.link {
            let Some(owner) = self.arbiter.joined(number) else { return false };
            self.arbiter.forget(number);
            client.link = Link::Known(owner);
        }
        true
    }

    /// A process's attributes, and its id for BPF programs if they see it.
    pub(crate) fn identity(&self, id: ClientId) -> Option<(Subject, Option<Heard>)> {
        let client = self.clients.get(&id)?;
        let heard = match (client.link, client.shim) {
            (Link::Known(owner), Some(shim)) if !owner.is_proxied() && client.subject.pid != 0 => {
                Some(Heard { tgid: owner.id(), shim, runtime: client.runtime, party: client.actor().party })
            }
            _ => None,
        };
        Some((client.subject.clone(), heard))
    }

    /// All processes with known ids.
    pub(crate) fn present(&self) -> Vec<(ClientId, u32)> {
        let all = self.clients.iter().map(|(&id, client)| (id, client.subject.pid));
        all.filter(|&(_, pid)| pid != 0).collect()
    }

    /// Takes in cgroups and nice values of processes, as just read by their ids, and updates their scheduling parameters.
    /// True if any was moved to another cgroup.
    pub(crate) fn learn_cgroups(&mut self, read: Vec<(ClientId, Seen)>) -> bool {
        let mut moved = Vec::new();
        for (id, Seen { cgroup, container, nice }) in read {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            if client.subject.nice != nice && client.peer.is_alive() {
                client.subject.nice = nice;
                self.restand(id);
            }
            let Some(client) = self.clients.get_mut(&id) else { continue };
            // The id may belong to another process by now.
            if client.subject.cgroup != cgroup && client.peer.is_alive() {
                tracing::debug!("{} is in cgroup {cgroup:?} now", client.peer.describe());
                client.subject.cgroup = cgroup;
                client.subject.pod = container.as_ref().and_then(|id| self.pods.known.get(id).cloned());
                client.subject.container = container;
                moved.push(id);
            }
        }
        for &id in &moved {
            self.restand(id);
        }
        if !moved.is_empty() {
            self.warn_of_all_promises(now_ns());
        }
        !moved.is_empty()
    }

    /// Checks that the caller may see what a process does.
    pub(crate) fn check_sight(&self, actor: Actor, pid: u32) -> Result<(), OrderError> {
        let owner = &self.clients[&self.find(pid)?[0]];
        if actor.may_see(owner.actor()) { Ok(()) } else { actor.check_privileged() }
    }

    /// A process has not shown its token: no BPF program sees it, so it must report over the socket. False if it has
    /// shown it.
    pub(crate) fn speak_for(&mut self, id: ClientId) -> bool {
        let Some(client) = self.clients.get(&id) else { return false };
        let Link::Awaited(number) = client.link else { return false };
        self.arbiter.forget(number);
        let link = self.speak(id);
        if let Some(client) = self.clients.get_mut(&id) {
            client.link = link;
        }
        true
    }

    fn speak(&mut self, id: ClientId) -> Link {
        self.counts.by_socket += u64::from(self.arbiter.keeper() == Keeper::Programs);
        Link::Known(self.arbiter.speak_for(id.0))
    }

    /// A process will use a device. Returns the answer, what comes with it in that order, and why there is no gate page.
    pub(crate) fn open(&mut self, id: ClientId, wanted: &OpenClaim) -> Result<Answered, RefusalReason> {
        let client = self.clients.get(&id).ok_or(RefusalReason::NotJoined)?;
        let Link::Known(owner) = client.link else { return Err(RefusalReason::NotJoined) };
        if client.claims.len() >= CLAIMS_PER_CLIENT_MAX {
            return Err(RefusalReason::Full);
        }
        let (pid, actor) = (client.subject.pid, client.actor());
        if let Err((own, what)) = self.check_share(actor, wanted.device) {
            self.log_refusal(pid, actor.party, own, what);
            return Err(RefusalReason::Full);
        }
        let (key, gate) = match self.arbiter.open(owner, wanted.device, Level::LAST.number() as u8) {
            Ok(opened) => (opened.claim, opened.gate),
            Err(ArbiterError::NoDevice(_)) => return Err(RefusalReason::Malformed),
            Err(ArbiterError::OwnerGone) => return Err(RefusalReason::NotJoined),
            Err(error) => return Err(refuse_full(&error)),
        };
        let (now_ns, device) = (now_ns(), self.arbiter.page().claim(key.slot).word.device() as u16);
        self.forget_unused_devices(id);
        // A previous claim in this slot is closed, and that event is still on its way.
        self.forget_claim(Nanos(now_ns), key.slot);
        let claim = Claim {
            key,
            client: id,
            device_key: wanted.device,
            device,
            stream_priority: wanted.stream_priority.clamp(-STREAM_PRIORITY_MAX, STREAM_PRIORITY_MAX),
            set: Wish::default(),
            hint: claim_hints(wanted),
            opened_ns: now_ns,
            usage: Used::new(now_ns),
            origins: BTreeMap::new(),
            group: None,
        };
        self.claims.insert(key.slot, claim);
        if let Some(client) = self.clients.get_mut(&id) {
            client.claims.insert(key.slot);
        }
        self.counts.opened += 1;
        self.note_seat(key.slot);
        self.regroup(key.slot);
        if let Some(attributes) = self.attributes(key.slot) {
            self.scheduler
                .handle(Nanos(now_ns), ClaimChange::Opened { claim: ClaimId(key.slot), attributes });
            if let Some(warning) = self.warn_of_promises(wanted.device, now_ns) {
                tracing::warn!("with process {pid} {warning}");
            }
        }
        let keeper = if owner.is_proxied() { Keeper::Controller } else { Keeper::Programs };
        let wake = self.make_wake(id, now_ns);
        let (gate, no_gate) = match gate {
            Ok(gate) => (Some(gate), None),
            Err(error) => (None, Some(error)),
        };
        let brings = |descriptor: &Option<OwnedFd>, bit| if descriptor.is_some() { bit } else { 0 };
        let opened = Opened {
            kind: PacketKind::Opened as u32,
            request: wanted.request,
            slot: key.slot,
            generation: key.generation,
            keeper: keeper as u32,
            brings: brings(&gate, Opened::GATE) | brings(&wake, Opened::WAKE),
        };
        Ok(Answered { opened, descriptors: gate.into_iter().chain(wake).collect(), no_gate })
    }

    /// A device on which a process has no claim may be another one by now.
    fn forget_unused_devices(&mut self, id: ClientId) {
        let used: BTreeSet<u16> = self.open_claims(id).map(|claim| claim.device).collect();
        if let Some(client) = self.clients.get_mut(&id) {
            client.hears.retain(|device| used.contains(device));
        }
    }

    /// A process's claims without those that it has closed, although that event is still on its way.
    fn open_claims(&self, id: ClientId) -> impl Iterator<Item = &Claim> {
        let slots = self.clients.get(&id).into_iter().flat_map(|client| &client.claims);
        let claims = slots.filter_map(|slot| self.claims.get(slot));
        claims.filter(|claim| self.arbiter.is_open(claim.key))
    }

    /// An epoll instance for a process that has a claim on a device of which its last instance does not tell. It outlives claim and
    /// connection if the process keeps it, and makes each wake-up on these devices take longer; so a party gets some at once, and
    /// more only slowly.
    fn make_wake(&mut self, id: ClientId, now_ns: u64) -> Option<OwnedFd> {
        let client = self.clients.get(&id)?;
        let devices: BTreeSet<u16> = self.open_claims(id).map(|claim| claim.device).collect();
        if devices.is_subset(&client.hears) {
            return None;
        }
        let (pid, actor) = (client.subject.pid, client.actor());
        let keys: Vec<_> = self.open_claims(id).map(|claim| claim.key).collect();
        let is_due = actor.counted().is_none_or(|party| self.wakes.take(party, now_ns));
        let made = if is_due {
            self.arbiter.wake_fd(&keys).map_err(|error| error.to_string())
        } else {
            Err("it and others of its user or container have begun to use devices too often".to_owned())
        };
        let complains = made.is_err() && self.unwoken.is_due(actor.party, now_ns);
        match made {
            Ok(wake) => {
                self.clients.get_mut(&id)?.hears = devices;
                Some(wake)
            }
            Err(error) => {
                if complains {
                    tracing::warn!(
                        "process {pid} looks for changes every 10 ms instead of being woken: {error} (logged once an hour for \
                         each user and container)"
                    );
                }
                None
            }
        }
    }

    /// Checks whether a party may have another claim, and on this device. Otherwise returns how many it has, and of
    /// what.
    fn check_share(&self, actor: Actor, device_key: u64) -> Result<(), (usize, &'static str)> {
        let Some(party) = actor.counted() else { return Ok(()) };
        let check = |division: Division, counts: &BTreeMap<Party, usize>, what| {
            let own = counts.get(&party).copied().unwrap_or(0);
            if division.allows(party, counts) { Ok(()) } else { Err((own, what)) }
        };
        let mut claims = BTreeMap::new();
        for party in self.claims.values().filter_map(|claim| self.counted(claim)) {
            *claims.entry(party).or_default() += 1;
        }
        check(CLAIMS, &claims, "claims")?;
        // A device that is already in use uses up no quota.
        if self.claims.values().any(|claim| claim.device_key == device_key) {
            return Ok(());
        }
        check(DEVICES, &self.devices_by_party(), "devices")
    }

    /// How many devices each party has. A device that several parties share counts once, and not at all if a privileged
    /// user has it too.
    fn devices_by_party(&self) -> BTreeMap<Party, usize> {
        let mut devices: BTreeMap<u64, Option<Party>> = BTreeMap::new();
        for claim in self.claims.values() {
            let party = self.counted(claim);
            devices.entry(claim.device_key).and_modify(|first| *first = party.min(*first)).or_insert(party);
        }
        let mut counts = BTreeMap::new();
        for party in devices.into_values().flatten() {
            *counts.entry(party).or_default() += 1;
        }
        counts
    }

    /// Whether a shim that a process has mapped may be probed.
    pub(crate) fn may_probe(&mut self, peer: &Peer, shim: FileId) -> bool {
        self.builds.bring(now_ns(), shim, Actor::of(peer).counted())
    }

    /// The party that a claim counts for; none for privileged users.
    fn counted(&self, claim: &Claim) -> Option<Party> {
        self.clients.get(&claim.client)?.actor().counted()
    }

    /// Logs why a party's process is not scheduled, at most once in `MENTION_AGAIN_NS`, because the process retries
    /// every second.
    fn log_refusal(&mut self, pid: u32, party: Party, own: usize, what: &str) {
        let now_ns = now_ns();
        if self.refusals.is_due(party, now_ns) {
            let party = match party {
                Party::User(uid) => format!("user {uid}"),
                Party::Container(_) => "its container".to_owned(),
            };
            tracing::warn!(
                "process {pid} runs unscheduled: {party} has reached its limit with {own} {what} \
                 (logged once an hour for each user and container)"
            );
        }
    }

    /// Handles a report over the socket.
    pub(crate) fn report(&mut self, id: ClientId, report: &Reported) {
        let Some(Client { link: Link::Known(owner), .. }) = self.clients.get(&id) else { return };
        match Report::from_number(report.operation) {
            Some(operation) if owner.is_proxied() => {
                self.arbiter.report(*owner, operation, report.slot, report.argument);
            }
            _ => self.counts.refused += 1,
        }
    }

    /// A process reports what a claim has used.
    pub(crate) fn usage(&mut self, id: ClientId, usage: &Usage) {
        let claim = self.claims.get_mut(&usage.slot);
        let own = claim.filter(|claim| claim.client == id && claim.key.generation == usage.generation);
        let Some(claim) = own else {
            self.counts.refused += 1;
            return;
        };
        let now_ns = now_ns();
        let before = claim.usage;
        let device = Nanos(claim.usage.update(now_ns, usage));
        claim.count(&before, device, usage);
        self.meters.entry(claim.device_key).or_default().add(before.at_ns, now_ns, device.0);
        let commands = claim.usage.launched - before.launched;
        self.scheduler
            .handle(Nanos(now_ns), ClaimChange::Used { claim: ClaimId(usage.slot), device, commands });
    }

    /// A process or its connection has ended.
    pub(crate) fn leave(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else { return };
        let now = Nanos(now_ns());
        self.end_ring(id, client.recording.is_some());
        for slot in client.claims {
            if let Some(claim) = self.end_claim(now, slot) {
                self.arbiter.close(claim.key);
            }
        }
        let owner = match client.link {
            Link::Awaited(number) => {
                let owner = self.arbiter.joined(number);
                self.arbiter.forget(number);
                owner
            }
            Link::Known(owner) => Some(owner),
        };
        // The arbiter's table of processes is limited, whether or not they still live. A process that connects again
        // joins again, and may already have done so.
        if let Some(owner) = owner.filter(|&owner| !self.has(owner)) {
            self.arbiter.gone(owner);
        }
        if let Some(token) = &client.token {
            self.wishes.tokens.part(token, id);
        }
        self.wishes.departed.keep(client.peer, client.set);
    }

    /// Whether a process has a connection.
    fn has(&self, owner: Owner) -> bool {
        self.clients.values().any(|client| self.owner(client) == Some(owner))
    }

    /// The process of a connection, if the arbiter knows it.
    fn owner(&self, client: &Client) -> Option<Owner> {
        match client.link {
            Link::Awaited(number) => self.arbiter.joined(number),
            Link::Known(owner) => Some(owner),
        }
    }

    /// A process has shown this token. It uses an entry of the arbiter's table for as long as it lives, unless it is dismissed.
    /// It is, if its connection has ended or the controller has stopped waiting for the token.
    pub(super) fn dismiss_unless_expected(&mut self, owner: Owner, number: u64) {
        let is_awaited = |client: &Client| matches!(client.link, Link::Awaited(awaited) if awaited == number);
        if !self.clients.values().any(is_awaited) && !self.has(owner) {
            self.arbiter.gone(owner);
        }
    }

    /// The same for processes that have shown a token while events were lost.
    pub(super) fn dismiss_unconnected(&mut self) {
        let connected: BTreeSet<Owner> =
            self.clients.values().filter_map(|client| self.owner(client)).collect();
        for owner in self.arbiter.owners() {
            if !connected.contains(&owner) {
                self.arbiter.gone(owner);
            }
        }
    }

    /// A claim no longer exists.
    pub(super) fn forget_claim(&mut self, at: Nanos, slot: u32) {
        let Some(claim) = self.end_claim(at, slot) else { return };
        if let Some(client) = self.clients.get_mut(&claim.client) {
            client.claims.remove(&slot);
        }
    }

    fn end_claim(&mut self, at: Nanos, slot: u32) -> Option<Claim> {
        if self.claims.contains_key(&slot) {
            self.scheduler.handle(at, ClaimChange::Closed { claim: ClaimId(slot) });
            // Its last turn is still counted.
            self.count_happenings();
        }
        let ended = self.claims.remove(&slot)?;
        if self.claims.values().all(|claim| claim.device_key != ended.device_key) {
            self.meters.remove(&ended.device_key);
        }
        Some(ended)
    }

    /// The scheduling parameters of a process, without those that were set for single claims.
    pub(super) fn parameters_of(&self, client: &Client) -> Parameters {
        client.parameters(&self.config, &self.wishes.of(client)).0
    }

    /// The attributes of a claim for the scheduler.
    pub(super) fn attributes(&self, slot: u32) -> Option<xsched_sched::Attributes> {
        let claim = self.claims.get(&slot)?;
        let client = self.clients.get(&claim.client)?;
        let said = self.wishes.of(client);
        let (parameters, _) = client.parameters(&self.config, &claim.said(&said));
        let ceiling = self.config.ceiling(&client.subject).priority;
        Some(claim.attributes(parameters, ceiling, client.subject.nice))
    }

    /// A process asks for something else than before.
    pub(crate) fn rehint(&mut self, id: ClientId, said: &Hints) {
        let hint = hints(said);
        if let Some(client) = self.clients.get_mut(&id).filter(|client| client.hint != hint) {
            client.hint = hint;
            self.restand(id);
        }
    }

    /// Passes the current scheduling parameters of a process to the scheduler.
    pub(super) fn restand(&mut self, id: ClientId) {
        let now = Nanos(now_ns());
        let slots = self.clients.get(&id).map(|client| client.claims.clone()).unwrap_or_default();
        for slot in slots {
            if let Some(attributes) = self.attributes(slot) {
                self.scheduler.handle(now, ClaimChange::Changed { claim: ClaimId(slot), attributes });
                self.note_seat(slot);
                self.regroup(slot);
            }
        }
    }

    /// How a process's reports arrive.
    pub(super) fn reports(client: &Client) -> PageKeeper {
        match client.link {
            Link::Known(owner) if owner.is_proxied() => PageKeeper::Controller,
            _ => PageKeeper::Programs,
        }
    }
}

fn refuse_full(error: &ArbiterError) -> RefusalReason {
    tracing::warn!("a process is refused: {error}");
    RefusalReason::Full
}
