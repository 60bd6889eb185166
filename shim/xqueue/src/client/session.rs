//! The session with the controller, a step at a time: connect, join, open a queue for each claim.
//!
//! ```text
//!   away --connected--> greeted --Welcome--> joined --Opened--> claims are registered
//!    ^                     |                   |
//!    '--- a second later --+---- the end ------'      a refusal for good: away until there is another
//! ```

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use thiserror::Error;
use xsched_protocol::arbiter_page::Report;
use xsched_protocol::shim_status::ShimScheduling;
use xsched_protocol::wire::{
    FromController, Hello, Keeper, OpenClaim, Opened, PacketKind, RefusalReason, Rules, Welcome,
};
use xsched_sched::{Limit, Nanos};

use crate::client::arbiter_page::{PageError, check_seals};
use crate::client::connection::{Connection, Received, SocketError, SocketFile, socket_files};
use crate::client::descriptor::Descriptor;
use crate::client::host::{ControllerRules, Host};
use crate::client::link::{Link, Slot};
use crate::client::page_registration::PageRegistration;
use crate::client::settings::{SchedulerChoice, Settings};
use crate::client::usage::{Account, Names};
use crate::clock::MachineClock;
use crate::device::Device;
use crate::event_writer::EventWriter;
use crate::gate_page::GatePage;
use crate::ids::{ClaimId, ClaimKey, QueueHints};
use crate::xqueues::XQueues;

use crate::trouble::Trouble;

/// How long after a failure the client looks for a controller again.
pub(super) const RETRY: Nanos = Nanos::from_secs(1);

/// How often usage is sent at most.
const USAGE_EVERY: Nanos = Nanos::from_millis(10);

/// The maximum length of the rules' text in bytes.
const RULES_MAX: u32 = 1 << 20;

/// The lowest preemption mode that uses gates.
const GATES: u32 = 2;

/// Why a session ends.
#[derive(Debug, Error)]
pub(super) enum ClientError {
    #[error(transparent)]
    Connection(#[from] SocketError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("join the controller: it refuses for reason {0}")]
    Refused(u32),
    #[error("read the controller's rules")]
    Rules,
    #[error("keep a claim: it is gone from the page")]
    ClaimGone,
    #[error("understand the controller: it sends a packet at a wrong time")]
    Unexpected,
}

impl ClientError {
    /// Whether the same would happen again.
    fn is_final(&self) -> bool {
        let reasons = [RefusalReason::Version as u32, RefusalReason::Malformed as u32];
        matches!(self, Self::Refused(reason) if reasons.contains(reason))
    }

    /// Why no controller schedules the process.
    fn scheduling(&self) -> ShimScheduling {
        match self {
            Self::Refused(reason) if *reason == RefusalReason::Version as u32 => ShimScheduling::Version,
            Self::Refused(reason) if *reason == RefusalReason::Full as u32 => ShimScheduling::Full,
            Self::Refused(_) => ShimScheduling::Refused,
            _ => ShimScheduling::NoController,
        }
    }
}

/// A claim's queue with the controller.
struct Opening {
    claim: ClaimId,
    /// The controller was asked to open it.
    is_asked: bool,
    slot: Option<Slot>,
    account: Account,
}

enum Phase {
    Away {
        retry_at: Nanos,
    },
    Greeted {
        connection: Arc<Connection>,
    },
    Joined {
        connection: Arc<Connection>,
        /// None: it has no claim yet.
        wake: Option<Descriptor>,
        keeper: Keeper,
        clock: MachineClock,
        claims: Vec<Opening>,
        origins: Names,
        usage_at: Nanos,
    },
}

/// This process's side of the session.
pub(super) struct Client {
    link: Arc<Link>,
    settings: Settings,
    host: Box<dyn Host>,
    phase: Phase,
    /// The sockets that there were just before it last connected, and whether the controller there refused for good: another
    /// one may not.
    tried: Vec<SocketFile>,
    is_refused: bool,
}

impl Client {
    /// A client without a session. It looks for a controller only if the process is to be scheduled by one.
    pub(super) fn new(link: Arc<Link>, settings: Settings, host: Box<dyn Host>) -> Self {
        let looks = settings.scheduler == SchedulerChoice::Controller;
        match settings.scheduler {
            SchedulerChoice::Controller => {}
            SchedulerChoice::Itself(_) => host.scheduled_by(ShimScheduling::Itself),
            SchedulerChoice::None => host.scheduled_by(ShimScheduling::Nothing),
        }
        let retry_at = if looks { Nanos::ZERO } else { Nanos(u64::MAX) };
        let phase = Phase::Away { retry_at };
        Self { link, settings, host, phase, tried: Vec::new(), is_refused: false }
    }

    /// Descriptors to poll: the connection, and the one that becomes ready when masks change.
    pub(super) fn descriptors(&self) -> (Option<&Connection>, Option<&Descriptor>) {
        match &self.phase {
            Phase::Away { .. } => (None, None),
            Phase::Greeted { connection } => (Some(connection), None),
            Phase::Joined { connection, wake, .. } => (Some(connection), wake.as_ref()),
        }
    }

    /// What keeps the page, while there is a controller.
    pub(super) fn keeper(&self) -> Option<Keeper> {
        match self.phase {
            Phase::Joined { keeper, .. } => Some(keeper),
            Phase::Away { .. } | Phase::Greeted { .. } => None,
        }
    }

    /// This process's queues.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        let claims = match &self.phase {
            Phase::Joined { claims, .. } => claims.as_slice(),
            Phase::Away { .. } | Phase::Greeted { .. } => &[],
        };
        claims.iter().filter_map(|opening| opening.slot)
    }

    /// Does what is possible without waiting.
    pub(super) fn step<D: Device>(&mut self, queues: &XQueues<D>, now: Nanos) {
        // A failure is not reported: most processes run without a controller.
        if let Err(error) = self.try_step(queues, now) {
            match error {
                ClientError::Refused(reason) if reason == RefusalReason::Full as u32 => {
                    queues.trouble(Trouble::ControllerFull);
                }
                ClientError::Connection(SocketError::Lost) => queues.trouble(Trouble::LostConnection),
                _ => {}
            }
            self.host.scheduled_by(error.scheduling());
            self.is_refused = error.is_final();
            self.leave(queues, now + RETRY);
        }
    }

    /// When to come again even if nothing happens: to look for a controller.
    pub(super) fn come_again_at(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Away { retry_at } => Some(retry_at),
            Phase::Greeted { .. } | Phase::Joined { .. } => None,
        }
    }

    /// Whether the controller has the usage of all queues.
    pub(super) fn has_sent_usage<D: Device>(&self, queues: &XQueues<D>) -> bool {
        let claims = match &self.phase {
            Phase::Joined { claims, .. } => claims.as_slice(),
            Phase::Away { .. } | Phase::Greeted { .. } => &[],
        };
        let is_sent = |opening: &Opening| opening.account.is_sent(queues, opening.claim);
        claims.iter().filter(|opening| opening.slot.is_some()).all(is_sent)
    }

    fn leave<D: Device>(&mut self, queues: &XQueues<D>, retry_at: Nanos) {
        self.link.put_in_force(false);
        self.link.connect(None, false);
        queues.record(None);
        self.host.record_calls(None);
        self.host.connect(None);
        for claim in queues.claims() {
            queues.register(claim.id, None);
        }
        self.phase = Phase::Away { retry_at };
    }

    fn try_step<D: Device>(&mut self, queues: &XQueues<D>, now: Nanos) -> Result<(), ClientError> {
        if let Phase::Away { retry_at } = self.phase {
            if now < retry_at {
                return Ok(());
            }
            // A connection file that is replaced from here on counts as a new one the next time.
            let before = std::mem::replace(&mut self.tried, socket_files(&self.settings));
            if self.is_refused && before == self.tried {
                self.phase = Phase::Away { retry_at: now + RETRY };
                return Ok(());
            }
            self.is_refused = false;
            let connection = Arc::new(Connection::connect(&self.settings)?);
            connection.send(&self.settings.hello(self.host.runtime())).map_err(SocketError::from)?;
            self.phase = Phase::Greeted { connection };
        }
        while let Some(received) = self.receive()? {
            self.receive_packet(queues, received, now)?;
        }
        let (_, wake) = self.descriptors();
        if wake.is_some_and(|wake| wake.get().is_none()) {
            return Err(SocketError::Lost.into());
        }
        let is_gone = |slot| self.link.word(slot).is_none();
        if self.slots().any(is_gone) {
            return Err(ClientError::ClaimGone);
        }
        if let Phase::Joined { connection, claims, origins, usage_at, .. } = &mut self.phase {
            connection.send_posted();
            open_and_close(connection, &self.link, claims, queues)?;
            if *usage_at <= now {
                *usage_at = now + USAGE_EVERY;
                send_usage(connection, self.host.as_ref(), claims, origins, queues);
            }
        }
        Ok(())
    }

    fn receive(&self) -> Result<Option<Received>, ClientError> {
        let (connection, _) = self.descriptors();
        Ok(connection.map_or(Ok(None), Connection::receive)?)
    }

    fn receive_packet<D: Device>(
        &mut self,
        queues: &XQueues<D>,
        received: Received,
        now: Nanos,
    ) -> Result<(), ClientError> {
        let packet = FromController::parse(&received.packet).map_err(SocketError::from)?;
        match (packet, &mut self.phase) {
            (FromController::Welcome(welcome), Phase::Greeted { connection }) => {
                let connection = Arc::clone(connection);
                self.join(queues, connection, welcome, received.descriptors, now)
            }
            (FromController::Opened(opened), Phase::Joined { claims, clock, wake, .. }) => {
                let mut brought = received.descriptors.into_iter();
                let mut next = |bit| if opened.brings & bit != 0 { brought.next() } else { None };
                let (gate, other_wake) = (next(Opened::GATE), next(Opened::WAKE));
                if let Some(other) = other_wake {
                    *wake = Some(Descriptor::new(other).map_err(SocketError::from)?);
                }
                let opening = claims.get_mut(opened.request as usize).ok_or(ClientError::Unexpected)?;
                let registration = PageRegistration {
                    link: Arc::clone(&self.link),
                    slot: slot_of(&opened),
                    gate: gate.as_ref().and_then(gate_page::<D>),
                    clock: *clock,
                };
                opening.slot = Some(registration.slot);
                queues.register(opening.claim, Some(Arc::new(registration)));
                Ok(())
            }
            (FromController::Events(events), Phase::Joined { clock, .. }) => {
                let ring = received.descriptors.first().filter(|_| events.wanted != 0);
                let journal = ring.map(|ring| EventWriter::map(ring, *clock));
                if matches!(journal, Some(Err(_))) {
                    queues.trouble(Trouble::NoEventRing);
                }
                let events = journal.and_then(Result::ok);
                if events.is_some() {
                    self.host.recording_begins();
                }
                queues.record(events);
                self.host.record_calls(ring.map(|ring| (ring, clock.ahead_ns())));
                Ok(())
            }
            (FromController::Verdicts(_), Phase::Joined { .. }) => {
                let [page] = one(received.descriptors)?;
                Ok(self.host.set_verdicts(&page)?)
            }
            (FromController::Rules(rules), Phase::Joined { .. }) => {
                let [file] = one(received.descriptors)?;
                let (text, users) = text(rules, file)?;
                let first = u16::try_from(rules.first_rule).unwrap_or(0);
                self.host.set_rules(ControllerRules { text, users, first });
                Ok(())
            }
            (FromController::Refusal(refusal), _) => Err(ClientError::Refused(refusal.reason)),
            _ => Err(ClientError::Unexpected),
        }
    }

    fn join<D: Device>(
        &mut self,
        queues: &XQueues<D>,
        connection: Arc<Connection>,
        welcome: Welcome,
        descriptors: Vec<OwnedFd>,
        now: Nanos,
    ) -> Result<(), ClientError> {
        let [page] = one(descriptors)?;
        self.link.page.replace(page)?;
        self.link.connect(Some(Arc::clone(&connection)), welcome.observe != 0);
        self.host.connect(Some(Arc::clone(&connection)));
        let keeper = keeper(welcome.keeper);
        if keeper == Keeper::Programs {
            self.link.report(Report::Join, 0, welcome.token, Keeper::Programs);
        }
        queues.set_limit(match welcome.in_flight_ns {
            0 => self.settings.limit.unwrap_or_default(),
            ahead => Limit::of_time(Nanos(ahead), 1),
        });
        let mode = welcome.preemption_mode.min(self.settings.preemption_mode.unwrap_or(u32::MAX));
        queues.use_gates(mode >= GATES);
        queues.poll_below(Nanos(welcome.poll_below_ns));
        // Each controller numbers libraries in its own way.
        self.host.forget_origins();
        queues.forget_origins();
        self.link.put_in_force(true);
        self.host.scheduled_by(ShimScheduling::Controller);
        let (wake, clock) = (None, MachineClock::of_this_thread());
        let (claims, origins) = (Vec::new(), Names::default());
        self.phase = Phase::Joined { connection, wake, keeper, clock, claims, origins, usage_at: now };
        Ok(())
    }
}

/// The only descriptor of a packet.
fn one(descriptors: Vec<OwnedFd>) -> Result<[OwnedFd; 1], ClientError> {
    descriptors.try_into().map_err(|_| ClientError::Unexpected)
}

/// The text of the controller's rules, and the names of this process's user.
fn text(rules: Rules, file: OwnedFd) -> Result<(String, Vec<String>), ClientError> {
    if rules.len > RULES_MAX {
        return Err(ClientError::Rules);
    }
    let mut text = Vec::new();
    File::from(file).take(RULES_MAX.into()).read_to_end(&mut text).map_err(|_| ClientError::Rules)?;
    let mut text = String::from_utf8(text).map_err(|_| ClientError::Rules)?;
    let len = rules.len as usize;
    let users = text.get(len..).ok_or(ClientError::Rules)?.lines().map(str::to_owned).collect();
    text.truncate(len);
    Ok((text, users))
}

fn keeper(number: u32) -> Keeper {
    if number == Keeper::Programs as u32 { Keeper::Programs } else { Keeper::Controller }
}

/// Asks for queues for claims that have none, and closes those of claims that are not used any more.
fn open_and_close<D: Device>(
    connection: &Connection,
    link: &Link,
    claims: &mut Vec<Opening>,
    queues: &XQueues<D>,
) -> Result<(), ClientError> {
    for (request, claim) in queues.claims().into_iter().enumerate() {
        if claims.len() == request {
            claims.push(Opening {
                claim: claim.id,
                is_asked: false,
                slot: None,
                account: Account::default(),
            });
        }
        let opening = &mut claims[request];
        if !claim.is_used {
            if let Some(slot) = opening.slot.take() {
                queues.register(claim.id, None);
                link.report(Report::Close, slot.index, slot.generation.into(), slot.keeper);
                (opening.is_asked, opening.account) = (false, Account::default());
            }
        } else if !opening.is_asked {
            let packet = open_queue(request as u32, claim.key);
            connection.post(&packet, None).map_err(SocketError::from)?;
            opening.is_asked = true;
        }
    }
    Ok(())
}

fn open_queue(request: u32, ClaimKey { device, stream_priority, hints }: ClaimKey) -> OpenClaim {
    let QueueHints { priority, utilization, deadline_us } = hints;
    let given = |is_given, bit| if is_given { bit } else { 0 };
    OpenClaim {
        kind: PacketKind::OpenClaim as u32,
        request,
        device,
        stream_priority,
        hints: given(priority.is_some(), Hello::PRIORITY)
            | given(utilization.is_some(), Hello::UTILIZATION)
            | given(deadline_us.is_some(), Hello::DEADLINE),
        priority: priority.unwrap_or(0).into(),
        utilization: utilization.unwrap_or(0).into(),
        deadline_ns: u64::from(deadline_us.unwrap_or(0)) * 1_000,
    }
}

/// The page of a queue's gate. Without it the process closes a gate of its own.
fn gate_page<D: Device>(page: &OwnedFd) -> Option<Arc<GatePage>> {
    check_seals(page.as_fd()).ok()?;
    GatePage::map(page, D::GATE_MAPPINGS).ok().map(Arc::new)
}

fn slot_of(opened: &Opened) -> Slot {
    Slot { index: opened.slot, generation: opened.generation, keeper: keeper(opened.keeper) }
}

/// Sends what claims have used since the last time.
fn send_usage<D: Device>(
    connection: &Connection,
    host: &dyn Host,
    claims: &mut [Opening],
    origins: &mut Names,
    queues: &XQueues<D>,
) {
    for opening in claims {
        if let Some(slot) = opening.slot {
            opening.account.send(connection, host, origins, queues, opening.claim, slot);
        }
    }
}
