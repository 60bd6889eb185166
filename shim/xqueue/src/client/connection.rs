//! The controller's socket: where it is, the user at the other end, packets and descriptors.

#![expect(unsafe_code, reason = "asks for the peer in a way that rustix has not")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, send,
    sendmsg, socket_with,
};
use thiserror::Error;
use xsched_protocol::wire::{Malformed, PACKET_LEN_MAX, SHIM_SOCKET, SYSTEM_FOLDER, USER_FOLDER};
use zerocopy::{Immutable, IntoBytes};

use crate::client::descriptor::{Descriptor, raise};
use crate::client::settings::Settings;

/// Descriptors that come with one packet at most.
const DESCRIPTORS_MAX: usize = 2;

/// Why a connection cannot go on, or does not begin.
#[derive(Debug, Error)]
pub(crate) enum SocketError {
    #[error("reach a controller: {0}")]
    System(#[from] Errno),
    #[error("trust a controller of another user")]
    Stranger,
    #[error("reach the controller: it has ended the connection")]
    Ended,
    #[error("reach the controller: the program has closed or replaced the socket")]
    Lost,
    #[error("understand the controller: {0}")]
    Malformed(#[from] Malformed),
}

/// A packet as it came.
pub(crate) struct Received {
    pub packet: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

/// A connection to the controller that takes and gives packets without waiting.
#[derive(Debug)]
pub struct Connection(Descriptor);

impl Connection {
    /// Connects to the first controller that there is.
    ///
    /// # Errors
    /// There is none, or it is neither root's nor this user's.
    pub(super) fn connect(settings: &Settings) -> Result<Self, SocketError> {
        let mut error = SocketError::System(Errno::NOENT);
        // Where no file is, no socket is made: programs count on the lowest free number, which it would have for a moment.
        for folder in folders(settings).into_iter().filter(|folder| folder.join(SHIM_SOCKET).exists()) {
            match Self::connect_to(folder.join(SHIM_SOCKET)) {
                Ok(socket) => return Ok(socket),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    fn connect_to(path: PathBuf) -> Result<Self, SocketError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        match peer_user(&socket)? {
            user if user == 0 || user == rustix::process::geteuid().as_raw() => {
                Ok(Self(Descriptor::new(socket)?))
            }
            _ => Err(SocketError::Stranger),
        }
    }

    /// The socket, for one use right now. None: the program has closed or replaced it.
    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        self.0.get()
    }

    /// Sends one packet, whole. Never waits.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if the controller is too far behind; the connection's end otherwise.
    pub fn send(&self, packet: &(impl IntoBytes + Immutable)) -> Result<(), Errno> {
        let socket = self.get().ok_or(Errno::BADF)?;
        send(socket, packet.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(drop)
    }

    /// The same with a descriptor.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub fn send_with(
        &self,
        packet: &(impl IntoBytes + Immutable),
        descriptor: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let descriptors = [descriptor];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let socket = self.get().ok_or(Errno::BADF)?;
        sendmsg(socket, &[IoSlice::new(packet.as_bytes())], &mut ancillary, flags).map(drop)
    }

    /// The next packet, if one is there.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn receive(&self) -> Result<Option<Received>, SocketError> {
        // One byte more than any packet has: one that fills it is too long.
        let mut packet = [0; PACKET_LEN_MAX + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let socket = self.get().ok_or(SocketError::Lost)?;
        let got = match recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if got.bytes == 0 || got.flags.contains(ReturnFlags::TRUNC) {
            return Err(SocketError::Ended);
        }
        let descriptors = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.map(raise).collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let descriptors = descriptors.collect::<Result<_, _>>()?;
        Ok(Some(Received { packet: packet[..got.bytes].to_vec(), descriptors }))
    }
}

/// The listener's user, as the kernel noted it. Not by rustix: a peer outside of this pid namespace has the process id 0, which
/// its type cannot hold.
fn peer_user(socket: &OwnedFd) -> Result<u32, Errno> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let target = (&raw mut credentials).cast();
    // SAFETY: memory of the size that is given with it.
    let code = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, target, &raw mut size)
    };
    if code == 0 {
        Ok(credentials.uid)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// The identity of a socket file in one of the controllers' folders: device, inode, and when it was made.
pub(crate) type SocketFile = Option<(u64, u64, i64, i64)>;

/// All of them. One of them differs when another controller has come.
pub(super) fn socket_files(settings: &Settings) -> Vec<SocketFile> {
    let identity = |folder: PathBuf| {
        let metadata = std::fs::symlink_metadata(folder.join(SHIM_SOCKET)).ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
    };
    folders(settings).into_iter().map(identity).collect()
}

/// Where controllers have their sockets: the one that the environment names, or else the machine's and the user's.
fn folders(settings: &Settings) -> Vec<PathBuf> {
    if let Some(folder) = &settings.socket_folder {
        return vec![folder.clone()];
    }
    let of_user = settings.user_folder.as_ref().map(|folder| folder.join(USER_FOLDER));
    [PathBuf::from(SYSTEM_FOLDER)].into_iter().chain(of_user).collect()
}
