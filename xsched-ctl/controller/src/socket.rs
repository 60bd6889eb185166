//! The socket that shims connect to. Packets arrive whole or not at all.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    recvmsg, sendmsg, socket_with,
};
use rustix::time::Timespec;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use xsched_control_api::readiness::watch;
use xsched_protocol::wire::PACKET_LEN_MAX;

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
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self(watch(socket)?))
    }

    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        let accepted = self.0.async_io(Interest::READABLE, |socket| Ok(accept_with(socket, FLAGS)?)).await?;
        Ok(Connection(watch(accepted)?))
    }
}

/// The connection of one shim.
pub(crate) struct Connection(AsyncFd<OwnedFd>);

impl Connection {
    /// Waits for the next packet; an empty one is the end. At most one descriptor is taken from a packet. The kernel
    /// closes further ones, because there is no space for them.
    pub(crate) async fn receive(&self, packet: &mut Packet) -> io::Result<()> {
        packet.descriptor = None;
        self.0
            .async_io(Interest::READABLE, |socket| {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = RecvAncillaryBuffer::new(&mut space);
                let flags = RecvFlags::TRUNC | RecvFlags::CMSG_CLOEXEC;
                let room = &mut [IoSliceMut::new(&mut packet.bytes)];
                packet.len = recvmsg(socket, room, &mut control, flags)?.bytes;
                packet.descriptor = control.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                    _ => None,
                });
                Ok(())
            })
            .await
    }

    /// Whether the other end is closed, even if packets from there are still to be received.
    pub(crate) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }

    /// Sends a packet at once, or fails: a peer that does not read is not waited for.
    pub(crate) fn send(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors for one packet"));
        }
        sendmsg(&self.0, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Space for one packet and one more byte, so that a packet that is too long can be told from one that fits.
#[derive(Debug)]
pub(crate) struct Packet {
    bytes: [u8; PACKET_LEN_MAX + 1],
    len: usize,
    descriptor: Option<OwnedFd>,
}

impl Packet {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; PACKET_LEN_MAX + 1], len: 0, descriptor: None }
    }

    /// What was received; one byte too many if the packet was too long.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(self.bytes.len())]
    }

    /// The descriptor that came with it.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pair(dir: &Path) -> (OwnedFd, Connection) {
        let path = dir.join("shim.sock");
        let listener = Listener::bind(&path).unwrap();
        let client =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&client, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        (client, listener.accept().await.unwrap())
    }

    #[tokio::test]
    async fn packets_keep_their_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let (client, connection) = pair(dir.path()).await;
        for len in [4, PACKET_LEN_MAX, 2 * PACKET_LEN_MAX] {
            rustix::net::send(&client, &vec![7; len], SendFlags::empty()).unwrap();
        }
        let mut packet = Packet::new();
        for len in [4, PACKET_LEN_MAX, PACKET_LEN_MAX + 1] {
            connection.receive(&mut packet).await.unwrap();
            assert_eq!(packet.bytes(), vec![7; len]);
        }
        rustix::net::send(&client, &[7], SendFlags::empty()).unwrap();
        assert!(!connection.is_closed());
        drop(client);
        assert!(connection.is_closed(), "although a packet is left");
        connection.receive(&mut packet).await.unwrap();
        connection.receive(&mut packet).await.unwrap();
        assert_eq!(packet.bytes(), b"");
    }

    #[tokio::test]
    async fn a_packet_brings_one_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let (client, connection) = pair(dir.path()).await;
        let file = tempfile::tempfile().unwrap();
        let mut packet = Packet::new();
        for count in [1, 2, 0] {
            let descriptors = vec![file.as_fd(); count];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(count == 0 || control.push(SendAncillaryMessage::ScmRights(&descriptors)));
            sendmsg(&client, &[IoSlice::new(&[7; 8])], &mut control, SendFlags::empty()).unwrap();
            connection.receive(&mut packet).await.unwrap();
            assert_eq!(packet.bytes(), [7; 8]);
            assert_eq!(packet.take_descriptor().is_some(), count > 0);
        }
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (_client, connection) = pair(dir.path()).await;
        let refused = (0..100_000).find_map(|_| connection.send(&[0; 40], &[]).err());
        assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    }
}
