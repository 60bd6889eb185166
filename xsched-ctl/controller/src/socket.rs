//! The socket that shims connect to. Packets arrive whole or not at all.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recv, sendmsg, socket_with,
};
use rustix::time::Timespec;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use xsched_control_api::readiness::watch;
use xsched_protocol::wire::PACKET_LEN_MAX;

use super::foreign;
use super::room::Occupant;

/// Connections that may wait to be accepted: all processes of a node may start at once.
const BACKLOG: i32 = 1024;

/// Descriptors that one packet carries at most.
const DESCRIPTORS_MAX: usize = 2;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

pub(crate) struct Listener(AsyncFd<OwnedFd>);

impl Listener {
    /// Listens at a path that must not exist.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
        // Older kernels cannot; `receive` does not take such packets, either.
        foreign::refuse(&socket);
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self(watch(socket)?))
    }

    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        let accepted = self.0.async_io(Interest::READABLE, |socket| Ok(accept_with(socket, FLAGS)?)).await?;
        Connection::over(accepted)
    }
}

/// A connection of a shim or a recorder. None of the descriptors that its peer may send is ever taken: see `foreign.rs`.
pub(crate) struct Connection {
    /// There until it is dropped.
    socket: Option<AsyncFd<OwnedFd>>,
    /// Counted until the socket is closed.
    occupant: Option<Occupant>,
}

impl Connection {
    fn over(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: Some(watch(socket)?), occupant: None })
    }

    /// Counts for its party until it is closed.
    pub(crate) fn count(&mut self, occupant: Occupant) {
        self.occupant = Some(occupant);
    }

    fn socket(&self) -> &AsyncFd<OwnedFd> {
        self.socket.as_ref().expect("only `drop` takes it")
    }

    /// Waits for the next packet; an empty one is the end. Of a packet that is longer than [`PACKET_LEN_MAX`] only the beginning
    /// is taken; the rest waits for [`Self::tail`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`]: descriptors come with it, or the connection has failed.
    pub(crate) async fn receive(&self, packet: &mut Packet) -> io::Result<()> {
        self.socket()
            .async_io(Interest::READABLE, |socket| {
                if std::mem::take(&mut packet.waits) {
                    foreign::discard(socket)?;
                }
                packet.len = foreign::peek(socket, &mut packet.bytes)?;
                packet.waits = packet.len > PACKET_LEN_MAX;
                if packet.waits { Ok(()) } else { foreign::discard(socket) }
            })
            .await
    }

    /// What a packet has from this byte on.
    pub(crate) fn tail(&self, packet: &mut Packet, from: usize) -> io::Result<Vec<u8>> {
        let mut bytes = packet.bytes().to_vec();
        if std::mem::take(&mut packet.waits) {
            bytes.resize(packet.len, 0);
            recv(self.socket(), bytes.as_mut_slice(), RecvFlags::DONTWAIT)?;
        }
        Ok(bytes.split_off(from.min(bytes.len())))
    }

    /// Whether the other end is closed, even if packets from there are still to be received.
    pub(crate) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(self.socket(), PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }

    /// Sends a packet at once, or fails: a peer that does not read is not waited for.
    pub(crate) fn send(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors for one packet"));
        }
        sendmsg(self.socket(), &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let closing = self.socket.take().and_then(|socket| foreign::close(socket.into_inner()));
        Occupant::leave(self.occupant.take(), closing);
    }
}

/// Space for the beginning of a packet: all of it, unless it is longer than [`PACKET_LEN_MAX`].
#[derive(Debug)]
pub(crate) struct Packet {
    bytes: [u8; PACKET_LEN_MAX],
    len: usize,
    /// The socket still has it, because it is longer.
    waits: bool,
}

impl Packet {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; PACKET_LEN_MAX], len: 0, waits: false }
    }

    /// Its beginning.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(self.bytes.len())]
    }

    /// Its length, which may be greater.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::socketpair;
    use xsched_control_api::peer::Peer;

    use super::*;
    use crate::controller::Actor;
    use crate::room::Room;

    async fn pair(dir: &Path) -> (OwnedFd, Connection) {
        let path = dir.join("shim.sock");
        let listener = Listener::bind(&path).unwrap();
        let client =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&client, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        (client, listener.accept().await.unwrap())
    }

    #[tokio::test]
    async fn packets_keep_their_bounds_and_a_long_one_is_taken_only_if_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let (client, connection) = pair(dir.path()).await;
        let mut packet = Packet::new();
        for is_wanted in [false, true] {
            for len in [4, PACKET_LEN_MAX, PACKET_LEN_MAX + 1, 60_000, 5] {
                let sent: Vec<u8> = (0..len).map(|number| number as u8).collect();
                rustix::net::send(&client, &sent, SendFlags::empty()).unwrap();
                connection.receive(&mut packet).await.unwrap();
                assert_eq!(packet.len(), len);
                assert_eq!(packet.bytes(), &sent[..len.min(PACKET_LEN_MAX)]);
                if is_wanted {
                    assert_eq!(connection.tail(&mut packet, 3).unwrap(), sent[3..]);
                }
            }
        }
        drop(client);
        connection.receive(&mut packet).await.unwrap();
        assert_eq!(packet.bytes(), [0; 0]);
    }

    /// The kernel does not refuse them on a pair of sockets.
    #[tokio::test]
    async fn descriptors_are_not_taken_and_count_until_they_are_closed() {
        let (client, socket) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None).unwrap();
        let mut connection = Connection::over(socket).unwrap();
        let (room, user) = (Room::new(), Actor::of(&Peer::unknown(1, 4_000_000_000)));
        connection.count(room.occupant(user).unwrap());
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [reader.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&client, &[IoSlice::new(&[7; 8])], &mut control, SendFlags::empty()).unwrap();
        drop(reader);
        let received = connection.receive(&mut Packet::new()).await;
        assert_eq!(received.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(rustix::io::write(&writer, b"x").is_ok(), "the socket has the only reference");
        let tasks = tokio::task::LocalSet::new();
        tasks.run_until(async { drop(connection) }).await;
        assert!(!room.is_empty());
        tasks.await;
        assert!(room.is_empty() && rustix::io::write(&writer, b"x").is_err());
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (_client, connection) = pair(dir.path()).await;
        let refused = (0..100_000).find_map(|_| connection.send(&[0; 40], &[]).err());
        assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    }
}
