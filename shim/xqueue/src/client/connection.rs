//! The controller's socket: where it is, the user at the other end, packets and descriptors.

#![expect(unsafe_code, reason = "asks for the peer in a way that rustix has not")]

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use thiserror::Error;
use xsched_protocol::wire::{Malformed, PACKET_LEN_MAX, SHIM_SOCKET, SYSTEM_FOLDER, USER_FOLDER};
use zerocopy::{Immutable, IntoBytes};

use crate::client::descriptor::{Descriptor, raise};
use crate::client::outbox::{About, Outbox, Owed};
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
pub struct Connection {
    socket: Descriptor,
    outbox: Mutex<Outbox>,
}

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
            user if user == 0 || user == rustix::process::geteuid().as_raw() => Self::over(socket),
            _ => Err(SocketError::Stranger),
        }
    }

    /// A connection that exists already. On the watcher's thread.
    fn over(socket: OwnedFd) -> Result<Self, SocketError> {
        Ok(Self { socket: Descriptor::new(socket)?, outbox: Mutex::default() })
    }

    /// The socket, for one use right now. None: the program has closed or replaced it.
    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()
    }

    /// Sends one packet, whole, or not at all. Never waits.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if the controller is too far behind; the connection's end otherwise.
    pub fn send(&self, packet: &(impl IntoBytes + Immutable)) -> Result<(), Errno> {
        self.send_bytes(packet.as_bytes())
    }

    /// Sends one packet, now or as soon as the socket takes it, behind everything that was posted before. A newer packet about
    /// the same replaces it as long as it was not sent. Never waits.
    ///
    /// # Errors
    /// It will not be sent: the connection has ended, or the controller is hopelessly behind.
    pub fn post(&self, packet: &(impl IntoBytes + Immutable), about: Option<About>) -> Result<(), Errno> {
        self.post_owed(Owed { about, packet: packet.as_bytes().to_vec() })
    }

    /// The same with a text, which follows in the same packet.
    ///
    /// # Errors
    /// As for [`Self::post`].
    pub fn post_with(&self, packet: &(impl IntoBytes + Immutable), text: &str) -> Result<(), Errno> {
        self.post_owed(Owed { about: None, packet: [packet.as_bytes(), text.as_bytes()].concat() })
    }

    fn post_owed(&self, owed: Owed) -> Result<(), Errno> {
        self.outbox().post(owed, |owed| self.send_bytes(&owed.packet))
    }

    /// Sends what was posted, as far as the socket takes it. The program's threads may post in between.
    pub(super) fn send_posted(&self) {
        while self.outbox().send_one(|owed| self.send_bytes(&owed.packet)) {}
    }

    /// Whether something posted is to be sent when the socket takes it.
    pub(super) fn has_posted(&self) -> bool {
        !self.outbox().is_empty()
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_bytes(&self, packet: &[u8]) -> Result<(), Errno> {
        let socket = self.get().ok_or(Errno::BADF)?;
        send(socket, packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(drop)
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

#[cfg(test)]
mod tests {
    use rustix::net::{recv, socketpair};
    use xsched_protocol::wire::{FromShim, Hints, KernelName, PacketKind, SETTINGS_LEN_MAX, Settings};
    use zerocopy::FromZeros as _;

    use super::*;

    fn pair() -> (Connection, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (Connection::over(one).unwrap(), other)
    }

    fn hints(priority: i32) -> Hints {
        Hints { kind: PacketKind::Hints as u32, priority, ..Hints::new_zeroed() }
    }

    /// All packets that are there, with the texts that follow in them.
    fn read(socket: &OwnedFd) -> Vec<(FromShim, Option<String>)> {
        std::iter::from_fn(|| {
            let mut packet = vec![0; 8 + SETTINGS_LEN_MAX as usize];
            let (_, len) = recv(socket, packet.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
            let parsed = FromShim::parse(&packet[..len]).unwrap();
            let is_followed = matches!(parsed, FromShim::Settings(_));
            Some((parsed, is_followed.then(|| String::from_utf8(packet[8..len].to_vec()).unwrap())))
        })
        .collect()
    }

    #[test]
    fn what_was_posted_to_a_full_socket_arrives_when_the_controller_reads_again() {
        let (connection, controller) = pair();
        let sent = (0..100_000).take_while(|_| connection.send(&hints(0)).is_ok()).count();
        let longest = "r".repeat(SETTINGS_LEN_MAX as usize);
        let settings = Settings { kind: PacketKind::Settings as u32, len: SETTINGS_LEN_MAX };
        connection.post_with(&settings, &longest).unwrap();
        connection.post(&KernelName::new(3, b"k"), None).unwrap();
        for priority in 1..=100 {
            connection.post(&hints(priority), Some(About::Hints)).unwrap();
        }
        assert_eq!(read(&controller).len(), sent, "it was full");
        connection.send_posted();
        assert!(!connection.has_posted());
        let late = read(&controller);
        let [
            (FromShim::Settings(said), Some(rules)),
            (FromShim::KernelName(_), None),
            (FromShim::Hints(last), None),
        ] = late.as_slice()
        else {
            panic!("{late:?}")
        };
        assert_eq!((said.len, rules == &longest, last.priority), (SETTINGS_LEN_MAX, true, 100));
    }

    #[test]
    fn nothing_is_kept_for_a_controller_that_has_gone() {
        let (connection, controller) = pair();
        drop(controller);
        assert!(connection.post(&hints(1), Some(About::Hints)).is_err());
        assert!(!connection.has_posted());
    }
}
