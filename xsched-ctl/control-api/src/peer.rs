//! The process at the other end of a socket, as the kernel noted it at the connection.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::readiness::watch;

pub use container::Container;
pub use party::Party;

mod container;
mod party;

/// A process, which may have ended.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its id, in this process's pid namespace; 0 if it has none there.
    pub pid: u32,
    /// Its effective user when it connected.
    pub uid: u32,
    /// The container that it runs in, if any.
    pub container: Option<Container>,
    /// What it uses up counts for this.
    pub party: Party,
    /// Identifies it even after its id was reused.
    pidfd: Option<Arc<OwnedFd>>,
}

impl Peer {
    /// The peer of a connected socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let credentials: libc::ucred = option(&socket, libc::SO_PEERCRED)?;
        // The kernel reports 0 for a process outside this pid namespace and those inside it.
        let pid = u32::try_from(credentials.pid).unwrap_or(0);
        let pidfd = pidfd(&socket, credentials.pid)?.map(Arc::new);
        let peer = Self::read(pid, credentials.uid, pidfd);
        if peer.is_alive() {
            return Ok(peer);
        }
        // The id may have been reused if the process has ended and passed its connection on.
        Ok(Self { container: Some(Container::UNKNOWN), party: Party::Container(Container::UNKNOWN), ..peer })
    }

    /// An existing process.
    pub fn by_pid(pid: u32, uid: u32) -> io::Result<Self> {
        let id = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
        let pidfd = Some(Arc::new(pidfd_open(id, PidfdFlags::empty())?));
        Ok(Self::read(pid, uid, pidfd))
    }

    fn read(pid: u32, uid: u32, pidfd: Option<Arc<OwnedFd>>) -> Self {
        let container = Container::of(pid);
        Self { pid, uid, container, party: Party::of(pid, uid, container), pidfd }
    }

    /// The process that has written its id into a file and keeps that file open. None if it cannot be found.
    pub fn of_lock(path: &Path) -> Option<Self> {
        let lock = fs::metadata(path).ok()?;
        let pid = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        let peer = Self::by_pid(pid, lock.uid()).ok()?;
        let is_it = |file: fs::Metadata| (file.dev(), file.ino()) == (lock.dev(), lock.ino());
        let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let has_it = open.any(|entry| fs::metadata(entry.path()).is_ok_and(is_it));
        // If it is still alive, the id was its own while we read.
        (has_it && peer.is_alive()).then_some(peer)
    }

    /// Whether the process has not ended. True if unknown.
    pub fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return true };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        !matches!(poll(&mut fds, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
    }

    /// Identifies the process even after its id was reused. None if unknown.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(|pidfd| pidfd.as_fd())
    }

    /// Waits for the process's end; forever if that cannot be observed.
    pub async fn ended(&self) -> io::Result<()> {
        match &self.pidfd {
            Some(pidfd) => {
                let pidfd = watch(pidfd.try_clone()?)?;
                pidfd.readable().await.map(|_| ())
            }
            None => std::future::pending().await,
        }
    }

    /// Text for messages.
    pub fn describe(&self) -> String {
        format!("process {} of user {}", self.pid, self.uid)
    }
}

impl Peer {
    /// A process that need not exist.
    pub fn unknown(pid: u32, uid: u32) -> Self {
        Self { pid, uid, container: None, party: Party::User(uid), pidfd: None }
    }

    /// A process in a container of root's that need not exist.
    pub fn contained(pid: u32, uid: u32, container: u64) -> Self {
        let container = Container(container);
        Self { container: Some(container), party: Party::Container(container), ..Self::unknown(pid, uid) }
    }
}

/// The peer's own pid descriptor (`SO_PEERPIDFD`, since Linux 6.5); on older kernels, one opened by its id. None if it
/// is in a foreign pid namespace.
fn pidfd(socket: &impl AsFd, pid: i32) -> io::Result<Option<OwnedFd>> {
    match option::<libc::c_int>(socket, libc::SO_PEERPIDFD) {
        // SAFETY: the kernel has just created this descriptor for the caller, and nothing else owns it.
        Ok(fd) => return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
        Err(error) => return Err(error),
    }
    let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
    Ok(Some(pidfd_open(pid, PidfdFlags::empty())?))
}

/// Reads a socket option that is a plain structure.
fn option<T: Copy>(socket: &impl AsFd, name: libc::c_int) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has space for `len` bytes, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if len as usize != size_of::<T>() {
        return Err(io::Error::other("the kernel returned a value of another size"));
    }
    // SAFETY: the kernel has written all `len` bytes, and both types that this is used with allow any bits.
    Ok(unsafe { value.assume_init() })
}

/// How long a peer may take to send what the controller expects.
pub const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_holder_of_a_lock_has_it_open_and_has_written_its_id() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        assert!(Peer::of_lock(&path).is_none(), "the id belongs to another process");
        let _open = fs::File::open(&path).unwrap();
        assert_eq!(Peer::of_lock(&path).map(|peer| peer.pid), Some(std::process::id()));
        fs::write(&path, "no id\n").unwrap();
        assert!(Peer::of_lock(&path).is_none());
    }

    #[test]
    fn a_peer_in_the_same_process_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.container, None);
        assert!(peer.is_alive());
    }

    #[tokio::test]
    async fn the_end_of_a_peer_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let script =
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.stdin.read()";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (socket, _) = listener.accept().unwrap();
        let peer = Peer::of(&socket).unwrap();
        assert_eq!(peer.pid, child.id());
        assert!(peer.is_alive());
        drop(child.stdin.take());
        peer.ended().await.unwrap();
        assert!(!peer.is_alive());
        child.wait().unwrap();
    }
}
