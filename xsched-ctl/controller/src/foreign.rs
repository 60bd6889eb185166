//! Keeps descriptors that peers send away from this thread.
//!
//! A peer may send any file of its own, also one of a file system that it serves itself (FUSE) and whose answers never come. To
//! close such a file waits for `FLUSH`. Even without a number for it, the last reference to it waits for its dirty pages to be
//! written (`fuse_release`). These waits cannot be interrupted. The kernel drops the references of a packet in the thread that
//! receives it, or closes its socket: <https://github.com/torvalds/linux/blob/v6.12/net/unix/af_unix.c>. Therefore
//!
//! * the kernel refuses such packets where it can, from Linux 6.16 on ([`refuse`]);
//! * a packet is looked at before it is taken, and stays in its socket if descriptors come with it ([`peek`]);
//! * a socket with such packets is closed on a thread that does nothing else ([`close`]).

#![expect(unsafe_code, reason = "sets an option of sockets that rustix has not")]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::{OnceLock, mpsc};

use rustix::net::sockopt::{set_socket_passcred, socket_type};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, SocketType, recv, recvmsg, shutdown,
};
use tokio::sync::oneshot;

/// `SO_PASSRIGHTS` of `asm-generic/socket.h`, Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Packets that are taken from a socket to close it here. Usually some ten fit (`net.unix.max_dgram_qlen`), or 200 KiB of a stream.
const QUEUED_MAX: usize = 1024;

/// Whether packets with descriptors can no longer be sent to a socket, or to the connections that a listener accepts. Not before
/// Linux 6.16.
pub(crate) fn refuse(socket: impl AsFd) -> bool {
    let (off, size) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads as many bytes as `off` has.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const off).cast(), size) == 0 }
}

/// Copies what is to be received next, without taking it. Returns its whole length, if it is a packet. Never waits.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`]: descriptors come with it.
pub(crate) fn peek(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    match look(socket, bytes)? {
        (len, false) => Ok(len),
        (_, true) => Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors come with a packet")),
    }
}

/// Takes a packet that has been looked at.
pub(crate) fn discard(socket: impl AsFd) -> io::Result<()> {
    recv(socket, &mut [0; 4096], RecvFlags::DONTWAIT)?;
    Ok(())
}

/// Closes a connection. If it cannot be closed here, the answer comes when it is closed.
pub(crate) fn close(socket: OwnedFd) -> Option<oneshot::Receiver<()>> {
    // Nothing more arrives. Of the packets that are there, the first with descriptors decides.
    let _ = shutdown(&socket, Shutdown::Read);
    match is_harmless(&socket) {
        Ok(true) => None,
        Ok(false) | Err(_) => Some(close_elsewhere(socket)),
    }
}

/// Empties a socket to which nothing can be sent any more; false if it still has descriptors.
fn is_harmless(socket: &OwnedFd) -> io::Result<bool> {
    for _ in 0..QUEUED_MAX {
        // As much as is taken at once, if it is a stream.
        match look(socket, &mut [0; 4096]) {
            Ok((_, true)) => return Ok(false),
            Ok((0, false)) if is_empty(socket)? => return Ok(true),
            Ok((_, false)) => discard(socket)?,
            // The peer has ended without reading all, which is said once.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Whether nothing is to be received, rather than a packet without bytes: that would bring its sender's credentials, for which
/// there is no room, either.
fn is_empty(socket: &OwnedFd) -> io::Result<bool> {
    if socket_type(socket)? == SocketType::STREAM {
        return Ok(true);
    }
    set_socket_passcred(socket, true)?;
    let (_, has_credentials) = look(socket, &mut [0; 1])?;
    set_socket_passcred(socket, false)?;
    Ok(!has_credentials)
}

/// Also returns whether something comes with it for which there is no room. There is none for anything: the kernel makes no numbers
/// for descriptors, and the socket keeps its references to them.
fn look(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, bool)> {
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut RecvAncillaryBuffer::default(), flags)?;
    Ok((got.bytes, got.flags.contains(ReturnFlags::CTRUNC)))
}

/// A socket, and the way to say that it is closed.
type Closing = (OwnedFd, oneshot::Sender<()>);

/// Gives a socket to the thread that may wait for its descriptors, one after the other. If there is no such thread, it stays open.
fn close_elsewhere(socket: OwnedFd) -> oneshot::Receiver<()> {
    static CLOSER: OnceLock<Option<mpsc::Sender<Closing>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (give, take) = mpsc::channel::<Closing>();
        let close_all = move || {
            for (socket, tell) in take {
                drop(socket);
                // It may be that no task waits for it.
                let _ = tell.send(());
            }
        };
        let started = std::thread::Builder::new().name("xsched-closer".to_owned()).spawn(close_all);
        started
            .inspect_err(|error| tracing::warn!("cannot start a thread to close sockets: {error}"))
            .ok()?;
        Some(give)
    });
    let (tell, told) = oneshot::channel();
    match closer {
        Some(closer) => {
            if let Err(mpsc::SendError((socket, _))) = closer.send((socket, tell)) {
                let _ = socket.into_raw_fd();
            }
        }
        None => {
            let _ = socket.into_raw_fd();
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::fd::BorrowedFd;

    use rustix::io::Errno;
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, sendmsg, socketpair,
    };

    use super::*;

    fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn send(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
        sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    }

    /// Whether a pipe's end was closed, wherever it was.
    fn is_closed(other_end: &OwnedFd) -> bool {
        rustix::io::write(other_end, b"x").is_err()
    }

    #[test]
    fn a_packet_with_descriptors_is_refused_and_they_stay_in_its_socket() {
        for kind in [SocketType::SEQPACKET, SocketType::STREAM] {
            let (peer, own) = pair(kind);
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            send(&peer, b"without", &[]).unwrap();
            assert_eq!(peek(&own, &mut [0; 64]).unwrap(), 7);
            assert_eq!(recv(&own, &mut [0; 64], RecvFlags::empty()).unwrap().1, 7);
            send(&peer, b"with", &[reader.as_fd()]).unwrap();
            drop(reader);
            for _ in 0..2 {
                assert_eq!(peek(&own, &mut [0; 64]).unwrap_err().kind(), io::ErrorKind::InvalidData);
            }
            assert!(!is_closed(&writer), "the socket has the only reference");
        }
    }

    #[test]
    fn a_socket_is_closed_elsewhere_only_if_descriptors_are_in_it() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        // Packets before the one with a descriptor, and whether the peer has gone.
        for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
            assert!(close(pair(kind).0).is_none());
            let (peer, own) = pair(kind);
            send(&own, b"not read", &[]).unwrap();
            drop(peer);
            assert!(close(own).is_none(), "a peer that has reset the connection");
        }
        let packets: [&[&[u8]]; 4] = [&[], &[b"a"], &[b"", b""], &[b"", b"a", b"", b"b"]];
        for before in packets {
            for has_gone in [false, true] {
                for brings_one in [false, true] {
                    let (peer, own) = pair(SocketType::SEQPACKET);
                    for bytes in before {
                        assert_eq!(send(&peer, bytes, &[]), Ok(bytes.len()));
                    }
                    if brings_one {
                        send(&peer, b"", &[reader.as_fd()]).unwrap();
                    }
                    let kept = (!has_gone).then_some(peer);
                    let closed = close(own);
                    assert_eq!(closed.is_some(), brings_one, "{before:?}, {has_gone}");
                    if let Some(closed) = closed {
                        closed.blocking_recv().unwrap();
                    }
                    drop(kept);
                }
            }
        }
        drop(reader);
        assert!(is_closed(&writer), "no reference is left");
    }

    #[test]
    fn a_listener_that_refuses_descriptors_has_connections_that_refuse_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        for kind in [SocketType::SEQPACKET, SocketType::STREAM] {
            let listener = rustix::net::socket(AddressFamily::UNIX, kind, None).unwrap();
            if !refuse(&listener) {
                eprintln!("skipped: this kernel has no SO_PASSRIGHTS");
                return;
            }
            let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
            rustix::net::bind(&listener, &address).unwrap();
            rustix::net::listen(&listener, 1).unwrap();
            let client = rustix::net::socket(AddressFamily::UNIX, kind, None).unwrap();
            rustix::net::connect(&client, &address).unwrap();
            let file = tempfile::tempfile().unwrap();
            let tried = || (send(&client, b"x", &[file.as_fd()]), send(&client, b"x", &[]));
            assert_eq!(tried(), (Err(Errno::PERM), Ok(1)));
            let _accepted = rustix::net::accept(&listener).unwrap();
            assert_eq!(tried(), (Err(Errno::PERM), Ok(1)));
            std::fs::remove_file(&path).unwrap();
        }
    }
}
