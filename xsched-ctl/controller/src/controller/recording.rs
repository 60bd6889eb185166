//! The controller's part in a recording: it gives each process an event ring, and writes one itself.
//!
//! There is one recorder at a time; a privileged one replaces an unprivileged one. Other users see only their own
//! processes, also in the arbiter's ring.

use std::os::fd::OwnedFd;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use xsched_control_api::ring_memory::SharedRing;
use xsched_protocol::{
    arbiter_page::{ArbiterChange, ArbiterEvent},
    events::{Event, Ring},
    wire::{Events, PacketKind, RecordPacketKind, RecordRefusal, RecordedRing},
};
use xsched_symbols::now_ns;

use super::authority::audit;
use super::{Actor, ClientId, Controller};

/// A message for a recorder.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) packet: RecordedRing,
    /// The memory of a new ring.
    pub(crate) memory: Option<OwnedFd>,
    /// Dropped when it was sent, or when the recorder is gone.
    #[expect(dead_code, reason = "it is its end that says something")]
    said: oneshot::Sender<()>,
}

/// What a process is sent about recording.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) events: Events,
    /// Its ring, if it is to write events.
    pub(crate) ring: Option<OwnedFd>,
    /// Ends when the recorder has the ring. Only then the process is notified: otherwise it would write events that the
    /// recorder does not yet expect.
    pub(crate) is_announced: Option<oneshot::Receiver<()>>,
}

#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) id: RecordingId,
    /// Messages for the recorder; closed when another recorder replaces it.
    pub(crate) announcements: UnboundedReceiver<Announcement>,
    /// Says that there is another recorder, whose probes have to see all calls.
    pub(crate) is_shared: oneshot::Receiver<()>,
}

/// Identifies a recording; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordingId(u32);

/// The current recording, if there is one.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    current: Option<Recording>,
    latest: u32,
}

impl Recordings {
    pub(super) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }
}

#[derive(Debug)]
struct Recording {
    id: RecordingId,
    actor: Actor,
    announcements: UnboundedSender<Announcement>,
    /// Until another recorder has asked.
    alone: Option<oneshot::Sender<()>>,
    arbiter: SharedRing,
}

impl Recording {
    fn sees(&self, process: Actor) -> bool {
        self.actor.may_see(process)
    }

    /// There is another recorder.
    fn share(&mut self) {
        if let Some(alone) = self.alone.take() {
            // If this one is gone, its task notices that.
            let _ = alone.send(());
        }
    }

    fn write(&self, time_ns: u64, event: &Event) {
        if let Some(ring) = Ring::of(self.arbiter.memory()) {
            ring.write(&event.record(time_ns, 0));
        }
    }

    /// Returns a receiver that ends when the recorder was notified.
    fn announce(&self, ring: u32, pid: u32, memory: Option<OwnedFd>) -> oneshot::Receiver<()> {
        let is_over = u32::from(memory.is_none());
        let packet = RecordedRing { kind: RecordPacketKind::Ring as u32, ring, pid, is_over };
        let (said, is_said) = oneshot::channel();
        // If the recorder is gone, its task notices that.
        let _ = self.announcements.send(Announcement { packet, memory, said });
        is_said
    }
}

impl Controller {
    pub(crate) fn record(&mut self, actor: Actor) -> Result<Recorded, RecordRefusal> {
        let is_taken = |other: &Recording| other.actor.is_privileged() || !actor.is_privileged();
        if let Some(other) = self.recordings.current.as_mut().filter(|other| is_taken(other)) {
            other.share();
            return Err(RecordRefusal::Busy);
        }
        let (arbiter, memory) = SharedRing::make().map_err(|error| {
            tracing::warn!("cannot make memory for events: {error}");
            RecordRefusal::Full
        })?;
        self.recordings.latest = self.recordings.latest.wrapping_add(1);
        let id = RecordingId(self.recordings.latest);
        let (announcements, told) = unbounded_channel();
        let (alone, is_shared) = oneshot::channel();
        let mut recording = Recording { id, actor, announcements, alone: Some(alone), arbiter };
        drop(recording.announce(0, 0, Some(memory)));
        if self.recordings.current.is_some() {
            // It is displaced, and goes on with its probes.
            recording.share();
        }
        self.recordings.current = Some(recording);
        audit(actor, "record", Ok("recording"));
        for slot in self.claims.keys().copied().collect::<Vec<_>>() {
            self.note_seat(slot);
        }
        Ok(Recorded { id, announcements: told, is_shared })
    }

    pub(crate) fn stop_recording(&mut self, id: RecordingId) {
        self.recordings.current.take_if(|recording| recording.id == id);
    }

    /// What a process must be sent about recording, if it does not know it yet.
    pub(crate) fn events_for(&mut self, id: ClientId) -> Option<Told> {
        let client = self.clients.get_mut(&id)?;
        let wanted = self.recordings.current.as_ref().filter(|recording| recording.sees(client.actor()));
        if client.recording == wanted.map(|recording| recording.id) {
            return None;
        }
        let events = |wanted| Events { kind: PacketKind::Events as u32, wanted };
        client.recording = wanted.map(|recording| recording.id);
        let Some(recording) = wanted else {
            return Some(Told { events: events(0), ring: None, is_announced: None });
        };
        let made = SharedRing::make().and_then(|(_, memory)| Ok((memory.try_clone()?, memory)));
        match made {
            Ok((memory, for_recorder)) => {
                let is_announced = recording.announce(id.0, client.subject.pid, Some(for_recorder));
                Some(Told { events: events(1), ring: Some(memory), is_announced: Some(is_announced) })
            }
            Err(error) => {
                tracing::warn!("process {} is not recorded: {error}", client.subject.pid);
                None
            }
        }
    }

    /// A process is gone: nothing writes into its ring any more.
    pub(super) fn end_ring(&self, id: ClientId, is_recorded: bool) {
        if let Some(recording) = self.recordings.current.as_ref().filter(|_| is_recorded) {
            drop(recording.announce(id.0, 0, None));
        }
    }

    /// Writes the owner and the scheduling parameters of a claim into the arbiter's ring.
    pub(super) fn note_seat(&self, slot: u32) {
        let Some(recording) = &self.recordings.current else { return };
        let Some(claim) = self.claims.get(&slot) else { return };
        let Some(client) = self.clients.get(&claim.client) else { return };
        if recording.sees(client.actor()) {
            let priority = self.attributes(slot).map_or(0, |attributes| attributes.priority);
            let seat = Event::Claim {
                slot,
                generation: claim.key.generation,
                pid: client.subject.pid,
                device: claim.device_key,
                priority: priority.into(),
                stream_priority: claim.stream_priority,
                word: self.arbiter.page().claim(slot).word.0,
            };
            recording.write(now_ns(), &seat);
        }
    }

    /// Writes a change of the page into the arbiter's ring.
    pub(super) fn note_change(&self, event: &ArbiterEvent) {
        let Some(recording) = &self.recordings.current else { return };
        let is = |change: ArbiterChange| event.change == change as u32;
        // The token that a process shows is a secret.
        if is(ArbiterChange::Joined) {
            return;
        }
        let claim = self.claims.get(&event.slot);
        let client = claim.and_then(|claim| self.clients.get(&claim.client));
        let concerns_all = is(ArbiterChange::Released) || is(ArbiterChange::Obeyed);
        if concerns_all || client.is_some_and(|client| recording.sees(client.actor())) {
            recording.write(event.time_ns, &Event::Arbiter(*event));
        }
    }
}

#[cfg(test)]
mod tests;
