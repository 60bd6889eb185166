//! Claims: what a process does on one device at one stream priority, as the arbiter knows it.
//!
//! ```text
//!              first launch                        all complete, and the linger over
//!   idle ------------------------> ready ---------------------------------------------> idle
//!          told: Ready              |  renewed while it makes progress, or is held back
//!                                   v
//!                     counted: launches on their way, commands on the device, commands held back
//! ```
//!
//! While no other process uses the device nothing of this is done: the claim stands alone.

use std::fmt::Debug;
use std::sync::Arc;

use xsched_sched::{Limit, Nanos};

use crate::queues::flight::Flight;
use crate::queues::origins::OriginTimes;
use crate::queues::{Device, GatePage};

/// For how much longer whoever had to give way is taken to have to again soon, each time, and for how long at most: who has to
/// once a second is so for a twentieth of it, and who has to twenty times always.
const ALERT: Nanos = Nanos::from_millis(50);
const ALERT_MAX: Nanos = Nanos::from_secs(1);

/// Names a claim. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId(pub(super) usize);

#[cfg(test)]
impl ClaimId {
    /// Of a claim that no queues know.
    pub(crate) fn for_tests(number: usize) -> Self {
        Self(number)
    }
}

/// What a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// See [`xsched_protocol::arbiter_page::device_key`].
    pub device: u64,
    /// Larger is more urgent; 0 for streams without a priority of their own.
    pub stream_priority: i32,
}

/// How a claim stands among all on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody else uses the device, or nobody has to be obeyed.
    Alone,
    /// Others use it, and want to know when this one has work. It is on the first level, where nothing is limited.
    Beside,
    /// Others use it who are more urgent, or may be so at any time.
    Below {
        /// One of them has work.
        held: bool,
    },
}

impl Standing {
    /// Whether it must wait for somebody more urgent.
    pub fn is_held(self) -> bool {
        self == Self::Below { held: true }
    }
}

/// A claim's place with the arbiter.
pub trait Seat: Debug + Send + Sync {
    /// How it stands now. Some loads.
    fn standing(&self) -> Standing;

    /// Tells the arbiter that it has work, or has it still. A system call at most; never waits.
    fn tell_ready(&self);

    /// Tells the arbiter that it has none.
    fn tell_idle(&self);

    /// Its level, and the levels of its device that have work.
    fn levels(&self) -> (u8, u64);

    /// Whether the arbiter counts it as ready.
    fn is_ready(&self) -> bool;

    /// How long it counts as ready without being told.
    fn lease(&self) -> Nanos;

    /// How long after its last completion it stays ready.
    fn linger(&self) -> Nanos;

    /// The gate that the arbiter shuts by itself, if there is one.
    fn gate_page(&self) -> Option<Arc<GatePage>> {
        None
    }

    /// Whether that gate is to be heeded: there is a controller, and it is not silent.
    fn is_heeded(&self) -> bool {
        true
    }

    /// Asks the arbiter to look at that gate again.
    fn ask_for_gate(&self) {}

    /// How long ago something was of which that gate's page tells.
    fn ago(&self, page_ns: u64) -> Nanos {
        let _ = page_ns;
        Nanos::ZERO
    }
}

/// What a claim has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Device time of what has completed while others used the device too.
    pub device_time: Nanos,
    /// Commands that it has launched meanwhile.
    pub launched: u64,
    /// Those of them that were held back before.
    pub held_back: u64,
    /// For how long something was held back because it had to give way.
    pub suspended: Nanos,
}

impl Usage {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            device_time: self.device_time + other.device_time,
            launched: self.launched + other.launched,
            held_back: self.held_back + other.held_back,
            suspended: self.suspended + other.suspended,
        }
    }
}

/// A claim's gate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gate<G> {
    /// Nobody has asked for one yet.
    Untried,
    /// The device has none, or it must not be used.
    None,
    There {
        gate: G,
        is_open: bool,
        /// Where the arbiter shuts it, too.
        shared: Option<&'static GatePage>,
    },
}

#[derive(Debug)]
pub(super) struct Claim<D: Device> {
    pub(super) key: ClaimKey,
    pub(super) seat: Option<Arc<dyn Seat>>,
    pub(super) usage: Usage,
    /// The parts of its device time.
    pub(super) by_origin: OriginTimes,
    /// On the device, from streams that have no queue.
    pub(super) loose: Flight<D::Marker>,
    pub(super) gate: Gate<D::Gate>,
    /// Callers that wait for their turn.
    pub(super) waiting: usize,
    /// Launches that were begun and have not returned.
    pub(super) launching: usize,
    /// When the arbiter was last told that there is work; None: it was told that there is none.
    told: Option<Nanos>,
    /// Something was launched or has completed since.
    has_progressed: bool,
    /// When the arbiter last had shut its gate that was accounted for, on the page's clock: as time that its commands waited there,
    /// and as time for which it gave way.
    pub(super) shut_noted: u64,
    pub(super) turn_noted: u64,
    /// When it last was seen to have work.
    busy: Option<Nanos>,
    /// Since when it is held, with something held back.
    held_since: Option<Nanos>,
    /// It had to give way when that was last looked at, and until when it is taken to have to again soon.
    gives_way: bool,
    alert_until: Nanos,
}

impl<D: Device> Claim<D> {
    pub(super) fn new(key: ClaimKey, limit: Limit) -> Self {
        Self {
            key,
            seat: None,
            usage: Usage::default(),
            by_origin: OriginTimes::default(),
            loose: Flight::new(limit),
            gate: Gate::Untried,
            waiting: 0,
            launching: 0,
            told: None,
            has_progressed: false,
            shut_noted: 0,
            turn_noted: 0,
            busy: None,
            held_since: None,
            gives_way: false,
            alert_until: Nanos::ZERO,
        }
    }

    pub(super) fn standing(&self) -> Standing {
        self.seat.as_ref().map_or(Standing::Alone, |seat| seat.standing())
    }

    /// It has work from now on.
    ///
    /// True if the arbiter was told of it just now.
    pub(super) fn wants(&mut self, now: Nanos) -> bool {
        self.busy = Some(now);
        let is_new = self.told.is_none() && self.seat.is_some();
        if is_new {
            self.tell_ready(now);
        }
        is_new
    }

    fn tell_ready(&mut self, now: Nanos) {
        if let Some(seat) = &self.seat {
            seat.tell_ready();
            self.told = Some(now);
            self.has_progressed = false;
        }
    }

    /// A command goes to the device. True if the arbiter was told of work just now.
    pub(super) fn begins(&mut self, now: Nanos) -> bool {
        let is_new = self.wants(now);
        self.has_progressed = true;
        self.launching += 1;
        self.usage.launched += 1;
        is_new
    }

    /// Something of it has completed, and took so long.
    pub(super) fn completed(&mut self, now: Nanos, took: Nanos) {
        self.has_progressed = true;
        self.busy = Some(now);
        self.usage.device_time += took;
    }

    pub(super) fn is_alone(&self) -> bool {
        self.standing() == Standing::Alone
    }

    /// Whether the arbiter was told that it has work.
    pub(super) fn is_told(&self) -> bool {
        self.told.is_some()
    }

    pub(super) fn is_below(&self) -> bool {
        matches!(self.standing(), Standing::Below { .. })
    }

    /// Does what is due at this time: tells the arbiter of work or its end. Returns when to come again.
    pub(super) fn tend(&mut self, has_work: bool, has_buffered: bool, now: Nanos) -> Option<Nanos> {
        let seat = Arc::clone(self.seat.as_ref()?);
        let standing = seat.standing();
        self.note_held(standing.is_held() && has_buffered, now);
        self.note_giving_way(standing.is_held(), now);
        let told = self.told?;
        if has_work {
            self.busy = Some(now);
        }
        let idle_at = self.busy.map_or(now, |busy| busy + seat.linger());
        if !has_work && (idle_at <= now || standing == Standing::Alone) {
            seat.tell_idle();
            self.told = None;
            return None;
        }
        // Held back is no fault of its own; but whoever neither launches nor completes does not keep others waiting.
        let is_alive = self.has_progressed || self.held_since.is_some();
        let renew_at = told + seat.lease() / 4;
        if is_alive && (renew_at <= now || !seat.is_ready()) {
            self.tell_ready(now);
        }
        let renew_at = if is_alive { Some(renew_at.max(now)) } else { None };
        let idle_at = if has_work { None } else { Some(idle_at) };
        renew_at.into_iter().chain(idle_at).min()
    }

    /// Whether it has to give way, or is taken to have to soon.
    pub(super) fn is_alert(&self, now: Nanos) -> bool {
        self.gives_way || now < self.alert_until
    }

    /// It had to give way and need not any more, which nobody has noticed.
    pub(super) fn gave_way(&mut self, now: Nanos) {
        self.note_giving_way(true, now);
        self.note_giving_way(false, now);
    }

    /// When the arbiter last shut its gate, and opened it again, on the page's clock; None: it still is shut. None at all if that is
    /// not known.
    pub(super) fn last_closure(&self) -> Option<(u64, Option<u64>)> {
        self.seat.as_ref()?.gate_page()?.last_closure()
    }

    fn note_giving_way(&mut self, gives_way: bool, now: Nanos) {
        if self.gives_way && !gives_way {
            self.alert_until = (self.alert_until.max(now) + ALERT).min(now + ALERT_MAX);
        }
        self.gives_way = gives_way;
    }

    /// When the arbiter may be told that there is no work, given that there is none.
    pub(super) fn idle_at(&self) -> Option<Nanos> {
        self.told?;
        Some(self.busy? + self.seat.as_ref()?.linger())
    }

    fn note_held(&mut self, is_held: bool, now: Nanos) {
        match self.held_since {
            None if is_held => self.held_since = Some(now),
            Some(since) => {
                self.usage.suspended += now - since;
                self.held_since = is_held.then_some(now);
            }
            None => {}
        }
    }

    /// Another place with the arbiter, or none any more.
    pub(super) fn seated(&mut self, seat: Option<Arc<dyn Seat>>, now: Nanos) {
        // Nobody holds it any more who did.
        self.note_held(false, now);
        self.seat = seat;
        self.told = None;
        // What was before is none of its business.
        let shut = self.last_closure().map_or(0, |(shut, _)| shut);
        (self.shut_noted, self.turn_noted) = (shut, shut);
    }
}
