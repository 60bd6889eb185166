//! Who is at the other end of a socket, as the kernel has noted when it connected.

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

/// A process, or what was one.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its id, in this process's pid namespace; 0 if it has none there.
    pub pid: u32,
    /// Its effective user when it connected.
    pub uid: u32,
    /// Where it runs, if that is in a container.
    pub container: Option<Container>,
    /// Names it also when its id has passed on.
    pidfd: Option<Arc<OwnedFd>>,
}

/// A container: what runs in a pid namespace of its own. Its root is root to the kernel's credentials of a connection, too, and has
/// nothing to say outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container(
    /// The number of its pid namespace; 0 where it cannot be told from others.
    u64,
);

impl Container {
    /// One that cannot be told from others.
    const UNKNOWN: Self = Self(0);

    /// That of a process, by its id in this process's pid namespace. None if it is in this very namespace.
    fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // Its ids in all namespaces from that of `/proc` to its own, which is this one if there is one of them.
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        if ids.is_some_and(|ids| ids.split_whitespace().count() == 1) {
            return None;
        }
        let namespace = fs::metadata(format!("/proc/{pid}/ns/pid"));
        Some(namespace.map_or(Self::UNKNOWN, |namespace| Self(namespace.ino())))
    }
}

impl Peer {
    /// Who has connected.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let credentials: libc::ucred = option(&socket, libc::SO_PEERCRED)?;
        // 0 in another pid namespace that is not inside this one.
        let pid = u32::try_from(credentials.pid).unwrap_or(0);
        let pidfd = pidfd(&socket, credentials.pid)?.map(Arc::new);
        let peer = Self { pid, uid: credentials.uid, container: Container::of(pid), pidfd };
        // What was read by its id may be another's if it has ended, and passed its connection on.
        let container = if peer.is_alive() { peer.container } else { Some(Container::UNKNOWN) };
        Ok(Self { container, ..peer })
    }

    /// A process that is there.
    pub fn by_pid(pid: u32, uid: u32) -> io::Result<Self> {
        let id = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
        let pidfd = Some(Arc::new(pidfd_open(id, PidfdFlags::empty())?));
        Ok(Self { pid, uid, container: Container::of(pid), pidfd })
    }

    /// The process that has written its id into a file and keeps that open. None if that is not to be seen.
    pub fn of_lock(path: &Path) -> Option<Self> {
        let lock = fs::metadata(path).ok()?;
        let pid = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        let peer = Self::by_pid(pid, lock.uid()).ok()?;
        let is_it = |file: fs::Metadata| (file.dev(), file.ino()) == (lock.dev(), lock.ino());
        let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let has_it = open.any(|entry| fs::metadata(entry.path()).is_ok_and(is_it));
        // What was looked at by the id was its own if it lives on.
        (has_it && peer.is_alive()).then_some(peer)
    }

    /// Whether the process has not ended. True where that cannot be told.
    pub fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return true };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        !matches!(poll(&mut fds, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
    }

    /// Names the process also when its id has passed on. None where that cannot be told.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(|pidfd| pidfd.as_fd())
    }

    /// Waits for the process's end; for ever where that cannot be told.
    pub async fn ended(&self) -> io::Result<()> {
        match &self.pidfd {
            Some(pidfd) => {
                let pidfd = watch(pidfd.try_clone()?)?;
                pidfd.readable().await.map(|_| ())
            }
            None => std::future::pending().await,
        }
    }

    /// For messages.
    pub fn describe(&self) -> String {
        format!("process {} of user {}", self.pid, self.uid)
    }
}

impl Peer {
    /// A process that need not be there.
    pub fn unknown(pid: u32, uid: u32) -> Self {
        Self { pid, uid, container: None, pidfd: None }
    }

    /// The same in a container.
    pub fn contained(pid: u32, uid: u32, container: u64) -> Self {
        Self { container: Some(Container(container)), ..Self::unknown(pid, uid) }
    }
}

/// The peer's own pid descriptor, since Linux 6.5; before, one by its number. None if it is of another pid namespace.
fn pidfd(socket: &impl AsFd, pid: i32) -> io::Result<Option<OwnedFd>> {
    match option::<libc::c_int>(socket, libc::SO_PEERPIDFD) {
        // SAFETY: the kernel has just made this descriptor for the caller.
        Ok(fd) => return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
        Err(error) => return Err(error),
    }
    let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
    Ok(Some(pidfd_open(pid, PidfdFlags::empty())?))
}

/// An option of a socket that is a plain structure.
fn option<T: Copy>(socket: &impl AsFd, name: libc::c_int) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has room for `len` bytes, and the kernel writes no more than that.
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
        return Err(io::Error::other("the kernel answers with something of another size"));
    }
    // SAFETY: the kernel has written all of it, and both types it is used with may have any bits.
    Ok(unsafe { value.assume_init() })
}

/// How long a peer may keep the controller waiting for what it should have sent.
pub const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_holds_a_lock_has_it_open_and_has_written_his_id() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        assert!(Peer::of_lock(&path).is_none(), "his id is another's by now");
        let _open = fs::File::open(&path).unwrap();
        assert_eq!(Peer::of_lock(&path).map(|peer| peer.pid), Some(std::process::id()));
        fs::write(&path, "nobody\n").unwrap();
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
