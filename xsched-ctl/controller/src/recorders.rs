//! One task for each recorder: hands out the event rings of the processes that it may see, for as long as the
//! connection lasts.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use xsched_control_api::peer::{PATIENCE, Peer};
use xsched_protocol::wire::{
    Record, RecordPacketKind, RecordRefusal, RecordRefused, RecordShared, RecordedRule, WIRE_VERSION,
};
use zerocopy::IntoBytes as _;

use super::controller::{Actor, Announcement, Recorded};
use super::room::{Room, Shortage};
use super::socket::{Connection, Listener, Packet};
use crate::origin::Names;
use crate::shared::Shared;

/// How long to wait before a packet is sent again that found the socket's buffer full.
const NO_ROOM: Duration = Duration::from_millis(5);

/// Accepts connections, one at a time until the first packet has come: recorders are rare.
pub(super) async fn accept(shared: Rc<Shared>, listener: Listener) {
    let (room, mut shortage) = (Room::new(), Shortage::default());
    loop {
        match listener.accept().await {
            Ok(mut connection) => {
                if let Ok((peer, occupant)) = room.take_in(&connection) {
                    connection.count(occupant);
                    tokio::task::spawn_local(serve(Rc::clone(&shared), connection, peer));
                }
            }
            Err(error) => shortage.pass("a recorder", &error).await,
        }
    }
}

async fn serve(shared: Rc<Shared>, connection: Connection, peer: Peer) {
    let actor = Actor::of(&peer);
    let begun = match greet(&connection).await {
        Ok(()) => shared.with(|controller| controller.record(actor)),
        Err(Some(refusal)) => Err(refusal),
        Err(None) => return,
    };
    let refusal = match begun {
        Ok(recorded) => {
            let id = recorded.id;
            shared.recording.notify_waiters();
            let end = attend(&connection, recorded, shared.rule_names.subscribe()).await;
            shared.with(|controller| controller.stop_recording(id));
            shared.recording.notify_waiters();
            tracing::debug!("recording for {} ends: {end:?}", peer.describe());
            match end {
                End::Displaced => RecordRefusal::Busy,
                End::Gone | End::Failed(_) => return,
            }
        }
        Err(refusal) => refusal,
    };
    let refused = RecordRefused { kind: RecordPacketKind::Refused as u32, reason: refusal as u32 };
    // A client that does not read this sees the connection end.
    let _ = connection.send(refused.as_bytes(), &[]);
}

/// Receives the first packet. `Err(None)`: it deserves no answer.
async fn greet(connection: &Connection) -> Result<(), Option<RecordRefusal>> {
    let mut packet = Packet::new();
    let received = timeout(PATIENCE, connection.receive(&mut packet)).await;
    if !matches!(received, Ok(Ok(()))) {
        return Err(None);
    }
    match Record::parse(packet.bytes()) {
        Ok(Record { version: WIRE_VERSION, .. }) => Ok(()),
        Ok(_) => Err(Some(RecordRefusal::Version)),
        Err(malformed) => {
            tracing::debug!("refused: {malformed}");
            Err(None)
        }
    }
}

/// Why a recording ends.
#[derive(Debug)]
enum End {
    /// The recorder has ended the connection, or has sent something unexpected.
    Gone,
    /// A more privileged recorder has replaced it.
    Displaced,
    /// It does not read, or the connection failed.
    Failed(#[expect(dead_code, reason = "for the log")] io::Error),
}

/// Hands out rings as they come, and the names of rules.
async fn attend(connection: &Connection, mut recorded: Recorded, names: Names) -> End {
    let mut packet = Packet::new();
    let mut names = Untold::new(names);
    let mut is_told = false;
    loop {
        tokio::select! {
            shared = &mut recorded.is_shared, if !is_told => {
                is_told = true;
                if shared.is_ok() && let Err(error) = send(connection, RecordShared::new().as_bytes(), &[]).await {
                    return End::Failed(error);
                }
            }
            _ = connection.receive(&mut packet) => return End::Gone,
            (number, name) = names.next() => {
                let rule = RecordedRule::new(number, &name);
                if let Err(error) = send(connection, rule.as_bytes(), &[]).await {
                    return End::Failed(error);
                }
            }
            announced = recorded.announcements.recv() => match announced {
                Some(announcement) => {
                    let Announcement { packet, memory, .. } = &announcement;
                    let descriptors: Vec<_> = memory.iter().map(|memory| memory.as_fd()).collect();
                    if let Err(error) = send(connection, packet.as_bytes(), &descriptors).await {
                        return End::Failed(error);
                    }
                }
                None => return End::Displaced,
            }
        }
    }
}

/// The names of rules that the recorder does not know yet.
struct Untold {
    names: Names,
    told: u16,
}

impl Untold {
    fn new(names: Names) -> Self {
        Self { names, told: 0 }
    }

    /// The next name with its number, once there is one.
    async fn next(&mut self) -> (u16, Arc<str>) {
        loop {
            let next = self.names.borrow_and_update().get(usize::from(self.told)).cloned();
            if let Some(name) = next {
                self.told += 1;
                return (self.told, name);
            }
            if self.names.changed().await.is_err() {
                // No further names will come.
                return std::future::pending().await;
            }
        }
    }
}

async fn send(connection: &Connection, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match connection.send(packet, descriptors) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                sleep(NO_ROOM).await;
            }
            sent => return sent,
        }
    }
}
