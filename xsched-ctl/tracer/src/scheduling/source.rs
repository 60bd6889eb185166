//! The controller that is asked for events, and the event rings that it hands out.

use std::collections::HashMap;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use xsched_control_api::{call_memory::SharedCalls, folder::Folder, peer::Peer};
use xsched_protocol::{
    events::Record,
    wire::{
        PACKET_LEN_MAX, Record as RecordPacket, RecordPacketKind, RecordRefusal, RecordedRing, RecordedRule,
        ToRecorder, WIRE_VERSION,
    },
};
use xsched_symbols::now_ns;
use zerocopy::IntoBytes as _;

use super::elsewhere;
use super::rings::Rings;

/// How often a missing controller is looked for.
const RETRY_NS: u64 = 1_000_000_000;

/// Identifies the ring of a process. Never reused, unlike process ids and the controller's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RingId(pub(super) u64);

/// The writer of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Arbiter,
    Process(RingId),
}

enum State {
    /// There is no controller, or none that lets this process record.
    Away { retry_ns: u64 },
    Connected {
        socket: OwnedFd,
        /// Its ids of processes are those of this pid namespace.
        has_own_ids: bool,
    },
    /// The controller cannot be used.
    Never,
}

/// Where events come from.
pub(super) struct Source {
    state: State,
    rings: Rings,
    /// Number of processes' rings so far.
    count: u64,
    /// Rings that are new since the last call, with their processes.
    begun: Vec<(RingId, u32)>,
    /// Memory for calls that is new since the last call, with its processes.
    calls: Vec<(u32, Rc<SharedCalls>)>,
    /// Memory for calls whose process still writes events. Others that have it learn of the end by being the last.
    written: HashMap<RingId, Rc<SharedCalls>>,
    /// Names of rules that are new since the last call.
    rule_names: Vec<(u16, Arc<str>)>,
    notices: Vec<String>,
    /// There is another recorder.
    is_shared: bool,
    /// The user was told why no scheduling is in the timeline.
    has_told: bool,
    /// The user was told why one process's scheduling is not.
    has_named: bool,
}

impl Source {
    pub(super) fn new() -> Self {
        Self {
            state: State::Away { retry_ns: 0 },
            rings: Rings::new(),
            count: 0,
            begun: Vec::new(),
            calls: Vec::new(),
            written: HashMap::new(),
            rule_names: Vec::new(),
            notices: Vec::new(),
            is_shared: false,
            has_told: false,
            has_named: false,
        }
    }

    /// Whether there is a controller, so that processes may begin to write events.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected { .. })
    }

    /// Whether there is, or was, another recorder: its probes have to see all calls.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(super) fn lost(&self) -> u64 {
        self.rings.lost()
    }

    pub(super) fn take_rule_names(&mut self) -> Vec<(u16, Arc<str>)> {
        std::mem::take(&mut self.rule_names)
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// The new rings since the last call, with the ids of their processes.
    pub(super) fn take_begun(&mut self) -> Vec<(RingId, u32)> {
        std::mem::take(&mut self.begun)
    }

    /// The processes that have memory for calls since the last call.
    pub(super) fn take_calls(&mut self) -> Vec<(u32, Rc<SharedCalls>)> {
        std::mem::take(&mut self.calls)
    }

    /// Takes all available records, with the times that order them; returns the rings that have ended.
    pub(super) fn read(&mut self, take: &mut impl FnMut(u64, Origin, Record)) -> Vec<RingId> {
        let over = self.rings.read(take);
        for id in &over {
            self.written.remove(id);
        }
        over
    }

    /// Receives the controller's packets; looks for a controller if there is none.
    pub(super) fn listen(&mut self) {
        if let State::Away { retry_ns } = self.state
            && retry_ns <= now_ns()
        {
            self.state = match ask() {
                Ok((socket, peer)) => State::Connected { socket, has_own_ids: has_own_ids(peer.pid) },
                Err(error) => {
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        self.tell(format!("warning: scheduling is not in the timeline: {error}"));
                    } else {
                        tracing::debug!("no controller to ask: {error}");
                    }
                    State::Away { retry_ns: now_ns() + RETRY_NS }
                }
            };
        }
        while let State::Connected { socket, .. } = &self.state {
            match receive(socket) {
                Ok(Some((ToRecorder::Ring(packet), memory))) => self.ring(packet, memory),
                Ok(Some((ToRecorder::Rule(rule), _))) => self.rule(&rule),
                Ok(Some((ToRecorder::Shared, _))) => self.is_shared = true,
                Ok(Some((ToRecorder::Refused(reason), _))) => self.refused(reason),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!("the controller is gone: {error}");
                    self.state = State::Away { retry_ns: now_ns() + RETRY_NS };
                    self.rings.end_all();
                }
            }
        }
    }

    /// A process has made its first call, and has written no event so far. It may be under a controller that is not
    /// asked, or unable to reach one.
    pub(super) fn meet(&mut self, pid: u32) {
        if !self.has_named
            && let Some(notice) = elsewhere::notice(pid, self.is_connected())
        {
            self.has_named = true;
            self.notices.push(notice);
        }
    }

    /// Tells the user once why scheduling is not in the timeline.
    fn tell(&mut self, notice: String) {
        if !std::mem::replace(&mut self.has_told, true) {
            self.notices.push(notice);
        }
    }

    fn ring(&mut self, packet: RecordedRing, memory: Option<OwnedFd>) {
        let Some(memory) = memory else { return self.rings.end(packet.ring) };
        self.count += 1;
        let id = RingId(self.count);
        let origin = if packet.ring == 0 { Origin::Arbiter } else { Origin::Process(id) };
        let is_neighbour =
            matches!(self.state, State::Connected { has_own_ids: true, .. }) && has_own_ids(packet.pid);
        // A controller of another version has no memory for calls.
        let calls = is_neighbour.then(|| SharedCalls::map(&memory).ok().map(Rc::new)).flatten();
        match self.rings.add(packet.ring, origin, memory) {
            Ok(()) if packet.ring != 0 => {
                self.begun.push((id, packet.pid));
                if let Some(calls) = calls {
                    self.written.insert(id, Rc::clone(&calls));
                    self.calls.push((packet.pid, calls));
                }
            }
            Ok(()) => {}
            Err(error) => tracing::warn!("events of process {} cannot be read: {error}", packet.pid),
        }
    }

    fn rule(&mut self, rule: &RecordedRule) {
        // A controller's numbers fit.
        if let Ok(number) = u16::try_from(rule.number) {
            self.rule_names.push((number, String::from_utf8_lossy(rule.text()).into()));
        }
    }

    fn refused(&mut self, reason: Option<RecordRefusal>) {
        let because = match reason {
            Some(RecordRefusal::Version) => "the controller is of another version",
            Some(RecordRefusal::Busy) => "another user is recording it",
            Some(RecordRefusal::Full) => "the controller has no memory for it",
            None => "the controller refuses",
        };
        self.tell(format!("scheduling is not in the timeline: {because}"));
        self.state = match reason {
            Some(RecordRefusal::Version) => State::Never,
            _ => State::Away { retry_ns: now_ns() + RETRY_NS },
        };
        self.rings.end_all();
    }
}

/// Asks the running controller to record. [`io::ErrorKind::PermissionDenied`]: it belongs to another user.
fn ask() -> io::Result<(OwnedFd, Peer)> {
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for folder in Folder::candidates() {
        match ask_at(&folder.record_socket()) {
            Ok(asked) => return Ok(asked),
            Err(other) if error.kind() != io::ErrorKind::PermissionDenied => error = other,
            Err(_) => {}
        }
    }
    Err(error)
}

fn ask_at(path: &Path) -> io::Result<(OwnedFd, Peer)> {
    let (socket, peer) = connect_to(path)?;
    if !is_trusted(peer.uid) {
        let refusal = format!("the controller at {} is user {}'s", path.display(), peer.uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal));
    }
    let packet = RecordPacket { kind: RecordPacketKind::Record as u32, version: WIRE_VERSION };
    let mut nothing = SendAncillaryBuffer::default();
    sendmsg(&socket, &[IoSlice::new(packet.as_bytes())], &mut nothing, SendFlags::NOSIGNAL)?;
    Ok((socket, peer))
}

/// Whether a process's ids, and those that it has for others, are those of this pid namespace.
fn has_own_ids(pid: u32) -> bool {
    // `/proc/self` is the main thread, which may have ended.
    let own = fs::read_link("/proc/thread-self/ns/pid");
    let its = fs::read_link(format!("/proc/{pid}/ns/pid"));
    own.is_ok_and(|own| its.is_ok_and(|its| own == its))
}

/// Connects to a controller, and determines its user. Nothing is sent yet.
pub(super) fn connect_to(path: &Path) -> io::Result<(OwnedFd, Peer)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let peer = Peer::of(&socket)?;
    Ok((socket, peer))
}

/// Whether a controller of this user may determine what the timeline shows.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// The next packet, if there is one.
fn receive(socket: &OwnedFd) -> io::Result<Option<(ToRecorder, Option<OwnedFd>)>> {
    let mut packet = [0; PACKET_LEN_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = match recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let memory = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let said =
        ToRecorder::parse(&packet[..got.bytes]).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Some((said, memory)))
}
