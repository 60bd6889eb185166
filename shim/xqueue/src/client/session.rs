//! The conversation with the controller, a step at a time: connect, be taken in, open a queue for each claim.
//!
//! ```text
//!   away --connected--> greeted --Welcome--> joined --Opened--> claims have their places
//!    ^                     |                   |
//!    '--- a second later --+---- the end ------'      a refusal for good: away until there is another
//! ```

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use thiserror::Error;
use xsched_protocol::arbiter_page::Report;
use xsched_protocol::wire::{
    FromController, Keeper, OpenQueue, Opened, PacketKind, RefusalReason, Rules, Welcome,
};
use xsched_sched::{Limit, Nanos};

use crate::client::arbiter_page::{PageError, check_seals};
use crate::client::connection::{Connection, Place, Received, SocketError, places};
use crate::client::host::{ControllerRules, Host};
use crate::client::inherited::Inherited;
use crate::client::link::{Link, Slot};
use crate::client::page_registration::PageRegistration;
use crate::client::settings::{SchedulerChoice, Settings};
use crate::client::usage::{Account, Names};
use crate::device::Device;
use crate::event_writer::EventWriter;
use crate::gate_page::GatePage;
use crate::ids::ClaimId;
use crate::xqueues::XQueues;

use crate::trouble::Trouble;

/// How long after a failure a controller is looked for again.
const RETRY: Nanos = Nanos::from_secs(1);

/// How often usage is told at most.
const USAGE_EVERY: Nanos = Nanos::from_millis(10);

/// No text of rules is longer, in bytes.
const RULES_MAX: u32 = 1 << 20;

/// The level of preemption from which on gates are used.
const GATES: u32 = 2;

/// Why a conversation ends.
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
    #[error("keep a queue: it is gone from the page")]
    QueueGone,
    #[error("understand the controller: it says something at a wrong time")]
    OutOfTurn,
}

impl ClientError {
    /// Whether the same would happen again.
    fn is_final(&self) -> bool {
        let reasons = [RefusalReason::Version as u32, RefusalReason::Malformed as u32];
        matches!(self, Self::Refused(reason) if reasons.contains(reason))
    }
}

/// A claim's queue with the controller.
struct Seated {
    claim: ClaimId,
    slot: Option<Slot>,
    account: Account,
}

enum Phase {
    Away {
        retry_at: Nanos,
    },
    Greeted {
        socket: Arc<Connection>,
    },
    Joined {
        socket: Arc<Connection>,
        wake: Inherited,
        keeper: Keeper,
        claims: Vec<Seated>,
        origins: Names,
        usage_at: Nanos,
    },
}

/// This process's side of the conversation.
pub(super) struct Client {
    link: Arc<Link>,
    settings: Settings,
    host: Box<dyn Host>,
    phase: Phase,
    /// The sockets that there were just before it connected last, and whether the controller there refused for good: another
    /// one may not.
    tried: Vec<Place>,
    is_refused: bool,
}

impl Client {
    /// Of a process that the controller schedules; any other never looks for one.
    pub(super) fn new(link: Arc<Link>, settings: Settings, host: Box<dyn Host>) -> Self {
        let looks = settings.scheduler == SchedulerChoice::Controller;
        let retry_at = if looks { Nanos::ZERO } else { Nanos(u64::MAX) };
        let phase = Phase::Away { retry_at };
        Self { link, settings, host, phase, tried: Vec::new(), is_refused: false }
    }

    /// What to poll: the connection, and what tells that masks have changed.
    pub(super) fn descriptors(&self) -> (Option<&Connection>, Option<&Inherited>) {
        match &self.phase {
            Phase::Away { .. } => (None, None),
            Phase::Greeted { socket } => (Some(socket), None),
            Phase::Joined { socket, wake, .. } => (Some(socket), Some(wake)),
        }
    }

    /// Who keeps the page, while there is a controller.
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
        claims.iter().filter_map(|seated| seated.slot)
    }

    /// Goes on as far as that is possible without waiting.
    pub(super) fn step<D: Device>(&mut self, queues: &XQueues<D>, now: Nanos) {
        // There is nobody to tell of a failure: most processes run without a controller.
        if let Err(error) = self.try_step(queues, now) {
            if matches!(error, ClientError::Refused(reason) if reason == RefusalReason::Full as u32) {
                queues.trouble(Trouble::ControllerFull);
            }
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

    /// Whether the controller was told all that queues have used.
    pub(super) fn has_told<D: Device>(&self, queues: &XQueues<D>) -> bool {
        let claims = match &self.phase {
            Phase::Joined { claims, .. } => claims.as_slice(),
            Phase::Away { .. } | Phase::Greeted { .. } => &[],
        };
        claims.iter().all(|seated| seated.account.is_told(queues, seated.claim))
    }

    fn leave<D: Device>(&mut self, queues: &XQueues<D>, retry_at: Nanos) {
        self.link.heed(false);
        self.link.connect(None, false);
        queues.record(None);
        self.host.connect(None);
        for (claim, _) in queues.claims() {
            queues.register(claim, None);
        }
        self.phase = Phase::Away { retry_at };
    }

    fn try_step<D: Device>(&mut self, queues: &XQueues<D>, now: Nanos) -> Result<(), ClientError> {
        if let Phase::Away { retry_at } = self.phase {
            if now < retry_at {
                return Ok(());
            }
            // A socket that takes the place of another from here on is a new one the next time.
            let before = std::mem::replace(&mut self.tried, places(&self.settings));
            if self.is_refused && before == self.tried {
                self.phase = Phase::Away { retry_at: now + RETRY };
                return Ok(());
            }
            self.is_refused = false;
            let socket = Arc::new(Connection::connect(&self.settings)?);
            socket.send(&self.settings.hello()).map_err(SocketError::from)?;
            self.phase = Phase::Greeted { socket };
        }
        while let Some(received) = self.receive()? {
            self.hear(queues, received, now)?;
        }
        let is_gone = |slot| self.link.word(slot).is_none();
        if self.slots().any(is_gone) {
            return Err(ClientError::QueueGone);
        }
        if let Phase::Joined { socket, claims, origins, usage_at, .. } = &mut self.phase {
            open_new(socket, claims, queues)?;
            if *usage_at <= now {
                *usage_at = now + USAGE_EVERY;
                tell_usage(socket, self.host.as_ref(), claims, origins, queues);
            }
        }
        Ok(())
    }

    fn receive(&self) -> Result<Option<Received>, ClientError> {
        let (socket, _) = self.descriptors();
        Ok(socket.map_or(Ok(None), Connection::receive)?)
    }

    fn hear<D: Device>(
        &mut self,
        queues: &XQueues<D>,
        received: Received,
        now: Nanos,
    ) -> Result<(), ClientError> {
        let packet = FromController::parse(&received.packet).map_err(SocketError::from)?;
        match (packet, &mut self.phase) {
            (FromController::Welcome(welcome), Phase::Greeted { socket }) => {
                let socket = Arc::clone(socket);
                self.join(queues, socket, welcome, received.descriptors, now)
            }
            (FromController::Opened(opened), Phase::Joined { claims, .. }) => {
                seat(&self.link, claims, &opened, gate_page(&received.descriptors), queues)
            }
            (FromController::Events(events), Phase::Joined { .. }) => {
                let ring = received.descriptors.first().filter(|_| events.wanted != 0);
                let journal = ring.map(EventWriter::map);
                if matches!(journal, Some(Err(_))) {
                    queues.trouble(Trouble::NoEventRing);
                }
                queues.record(journal.and_then(Result::ok));
                Ok(())
            }
            (FromController::Verdicts(packet), Phase::Joined { .. }) => {
                let [page] = one(received.descriptors)?;
                Ok(self.host.set_verdicts(&page, packet)?)
            }
            (FromController::Rules(rules), Phase::Joined { .. }) => {
                let [file] = one(received.descriptors)?;
                let (text, users) = text(rules, file)?;
                let first = u16::try_from(rules.first_rule).unwrap_or(0);
                self.host.set_rules(ControllerRules { text, users, first });
                Ok(())
            }
            (FromController::Refusal(refusal), _) => Err(ClientError::Refused(refusal.reason)),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    fn join<D: Device>(
        &mut self,
        queues: &XQueues<D>,
        socket: Arc<Connection>,
        welcome: Welcome,
        descriptors: Vec<OwnedFd>,
        now: Nanos,
    ) -> Result<(), ClientError> {
        let [page, wake] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| ClientError::OutOfTurn)?;
        self.link.page.replace(page)?;
        self.link.connect(Some(Arc::clone(&socket)), welcome.observe != 0);
        self.host.connect(Some(Arc::clone(&socket)));
        let keeper = keeper(welcome.keeper);
        if keeper == Keeper::Programs {
            self.link.report(Report::Join, 0, welcome.token, Keeper::Programs);
        }
        queues.set_limit(match welcome.in_flight_ns {
            0 => self.settings.limit.unwrap_or_default(),
            ahead => Limit::Time { ahead: Nanos(ahead), commands: 1 },
        });
        let level = welcome.preemption_mode.min(self.settings.preemption_level.unwrap_or(u32::MAX));
        queues.use_gates(level >= GATES);
        queues.poll_below(Nanos(welcome.poll_below_ns));
        // This controller numbers libraries in its own way.
        self.host.forget_origins();
        queues.forget_origins();
        self.link.heed(true);
        let (wake, claims, origins) = (Inherited::new(wake), Vec::new(), Names::default());
        self.phase = Phase::Joined { socket, wake, keeper, claims, origins, usage_at: now };
        Ok(())
    }
}

/// The only descriptor of a packet.
fn one(descriptors: Vec<OwnedFd>) -> Result<[OwnedFd; 1], ClientError> {
    descriptors.try_into().map_err(|_| ClientError::OutOfTurn)
}

/// The text of the controller's rules, and what this process's user is called.
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

/// Asks for queues for claims that have none.
fn open_new<D: Device>(
    socket: &Connection,
    claims: &mut Vec<Seated>,
    queues: &XQueues<D>,
) -> Result<(), ClientError> {
    let all = queues.claims();
    for &(claim, key) in all.iter().skip(claims.len()) {
        let packet = OpenQueue {
            kind: PacketKind::OpenQueue as u32,
            request: claims.len() as u32,
            device: key.device,
            stream_priority: key.stream_priority,
            reserved: 0,
        };
        socket.send(&packet).map_err(SocketError::from)?;
        claims.push(Seated { claim, slot: None, account: Account::default() });
    }
    Ok(())
}

/// The page of a queue's gate. Without it the process shuts a gate of its own.
fn gate_page(descriptors: &[OwnedFd]) -> Option<Arc<GatePage>> {
    let page = descriptors.first()?;
    check_seals(page.as_fd()).ok()?;
    GatePage::map(page).ok().map(Arc::new)
}

/// A queue was opened.
fn seat<D: Device>(
    link: &Arc<Link>,
    claims: &mut [Seated],
    opened: &Opened,
    gate: Option<Arc<GatePage>>,
    queues: &XQueues<D>,
) -> Result<(), ClientError> {
    let seated = claims.get_mut(opened.request as usize).ok_or(ClientError::OutOfTurn)?;
    let slot = Slot { index: opened.slot, generation: opened.generation, keeper: keeper(opened.keeper) };
    seated.slot = Some(slot);
    queues.register(seated.claim, Some(Arc::new(PageRegistration { link: Arc::clone(link), slot, gate })));
    Ok(())
}

/// Tells what claims have used since they last told.
fn tell_usage<D: Device>(
    socket: &Connection,
    host: &dyn Host,
    claims: &mut [Seated],
    origins: &mut Names,
    queues: &XQueues<D>,
) {
    for seated in claims {
        if let Some(slot) = seated.slot {
            seated.account.tell(socket, host, origins, queues, seated.claim, slot);
        }
    }
}
