//! One task for each recorder: hands out the rings of those that it may see, for as long as the connection lasts.

use std::io;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use xsched_abi::wire::{Record, RecordPacketKind, RecordRefusal, RecordRefused, WIRE_VERSION};
use zerocopy::IntoBytes as _;

use super::Shared;
use super::controller::{Actor, Announcement, Recorded};
use super::peer::{PATIENCE, Peer};
use super::socket::{Connection, Listener, Packet};

/// How long to wait before a packet is sent again that has found no room.
const NO_ROOM: Duration = Duration::from_millis(5);

/// Takes in whoever connects, one at a time until he has said what he wants: hardly anybody does.
pub(super) async fn accept(shared: Rc<Shared>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(connection) => {
                tokio::task::spawn_local(serve(Rc::clone(&shared), connection));
            }
            Err(error) => {
                tracing::warn!("cannot take in a recorder: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(shared: Rc<Shared>, connection: Connection) {
    let peer = match Peer::of(&connection) {
        Ok(peer) => peer,
        // It has ended already.
        Err(error) => return tracing::debug!("a connection without a peer: {error}"),
    };
    let actor = Actor { pid: peer.pid, uid: peer.uid };
    let begun = match greet(&connection).await {
        Ok(()) => shared.with(|controller| controller.record(actor)),
        Err(Some(refusal)) => Err(refusal),
        Err(None) => return,
    };
    let refusal = match begun {
        Ok(recorded) => {
            let id = recorded.id;
            shared.recording.notify_waiters();
            let end = attend(&connection, recorded).await;
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
    // Whoever does not read it sees the connection end.
    let _ = connection.send(refused.as_bytes(), &[]);
}

/// Hears the first packet. None: it is not worth an answer.
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
    /// The recorder has ended, or says something.
    Gone,
    /// Somebody with more rights records now.
    Displaced,
    /// It does not read, or the connection failed.
    Failed(#[expect(dead_code, reason = "for the log")] io::Error),
}

/// Hands out rings as they come.
async fn attend(connection: &Connection, mut recorded: Recorded) -> End {
    let mut packet = Packet::new();
    loop {
        tokio::select! {
            _ = connection.receive(&mut packet) => return End::Gone,
            announced = recorded.announcements.recv() => match announced {
                Some(announcement) => {
                    if let Err(error) = send(connection, &announcement).await {
                        return End::Failed(error);
                    }
                }
                None => return End::Displaced,
            }
        }
    }
}

async fn send(connection: &Connection, announcement: &Announcement) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let descriptors: Vec<_> = announcement.memory.iter().map(|memory| memory.as_fd()).collect();
        match connection.send(announcement.packet.as_bytes(), &descriptors) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                sleep(NO_ROOM).await;
            }
            sent => return sent,
        }
    }
}
