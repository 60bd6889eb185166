//! For whom a process uses up what is limited. A process chooses its user where it may, and the namespaces that it makes. So
//! what counts is the one that neither it nor its container can choose:
//!
//! ```text
//!   in a user namespace that an ordinary user has made    that user, whatever ids and containers there are within
//!   otherwise in a container                              that container, whatever its users; those within it too
//!   otherwise                                             the process's user
//! ```

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use super::container::Container;

/// Processes that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A user outside of containers, and in all containers that it has made.
    User(u32),
    /// A container that root has made, with the containers within it.
    Container(Container),
}

impl Party {
    /// The party of a process of user `uid`, by its id in this process's pid namespace.
    pub(super) fn of(pid: u32, uid: u32, container: Option<Container>) -> Self {
        match maker(pid) {
            Ok(Some(maker)) if !is_privileged(maker) => return Self::User(maker),
            Ok(_) => {}
            // Without the right to look, or for a process outside of this pid namespace, its user is all that is known.
            Err(_) => return Self::User(uid),
        }
        let Some(_) = container else { return Self::User(uid) };
        let outermost = outermost(pid, "pid").and_then(|namespace| inode(&namespace));
        outermost.map_or(Self::User(uid), |inode| Self::Container(Container(inode)))
    }
}

fn is_privileged(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// The user that has made the user namespace of a process; the outermost of several. None if the process is in this
/// process's own.
fn maker(pid: u32) -> io::Result<Option<u32>> {
    let own = fs::metadata("/proc/self/ns/user")?.ino();
    if fs::metadata(format!("/proc/{pid}/ns/user"))?.ino() == own {
        return Ok(None);
    }
    owner(&outermost(pid, "user")?).map(Some)
}

/// The namespace of a process, or the one around it, that is directly within this process's.
fn outermost(pid: u32, kind: &str) -> io::Result<OwnedFd> {
    let own = fs::metadata(format!("/proc/self/ns/{kind}"))?.ino();
    let mut namespace = OwnedFd::from(File::open(format!("/proc/{pid}/ns/{kind}"))?);
    loop {
        let around = parent(&namespace)?;
        if inode(&around)? == own {
            return Ok(namespace);
        }
        namespace = around;
    }
}

fn inode(namespace: &OwnedFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(namespace)?.st_ino)
}

/// The namespace around another; an error if that is none of ours.
fn parent(namespace: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: this request takes no argument; it returns a new descriptor, or -1.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_PARENT) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for the caller, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The user that has made a user namespace.
fn owner(namespace: &OwnedFd) -> io::Result<u32> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: this request writes one `uid_t` to its argument, which is one.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_OWNER_UID, &raw mut uid) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(uid) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use super::super::Peer;
    use super::*;

    /// No user of a machine where tests run.
    const USER: u32 = 3_999_999_998;

    /// A process behind some `unshare`, which says its id and waits for its input to end.
    struct Contained {
        child: Child,
        pid: u32,
    }

    impl Contained {
        fn start(uid: u32, unshares: &[&[&str]]) -> Self {
            // The id is the one in the test's pid namespace, as its own /proc shows it.
            let script = ["sh", "-c", "read -r pid rest < /proc/self/stat; echo $pid; read end"];
            let words =
                unshares.iter().flat_map(|options| ["unshare"].into_iter().chain(options.iter().copied()));
            let words: Vec<_> = words.chain(script).collect();
            let mut child = Command::new(words[0])
                .args(&words[1..])
                .uid(uid)
                .gid(uid)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            Self { child, pid: line.trim().parse().unwrap() }
        }

        fn party(&self, uid: u32) -> Party {
            let peer = Peer::by_pid(self.pid, uid).unwrap();
            assert!(peer.is_alive());
            peer.party
        }
    }

    impl Drop for Contained {
        fn drop(&mut self) {
            drop(self.child.stdin.take());
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_process_outside_of_containers_counts_for_its_user() {
        let peer = Peer::by_pid(std::process::id(), 7).unwrap();
        assert_eq!((peer.party, peer.container), (Party::User(7), None));
    }

    #[test]
    #[ignore = "needs root"]
    fn a_container_of_root_counts_for_itself_with_all_its_users_and_namespaces() {
        let pod = Contained::start(0, &[&["--pid", "--fork"]]);
        let other = Contained::start(0, &[&["--pid", "--fork"]]);
        let party = pod.party(0);
        assert!(matches!(party, Party::Container(_)), "{party:?}");
        assert_eq!(pod.party(1000), party, "its root may become any user");
        assert_ne!(other.party(0), party);
        let nested = Contained::start(0, &[&["--pid", "--fork"], &["--pid", "--fork"]]);
        let Party::Container(around) = nested.party(0) else {
            panic!("process {} is in containers", nested.pid)
        };
        assert_ne!(
            Some(around),
            Peer::by_pid(nested.pid, 0).unwrap().container,
            "it made the inner one itself"
        );
    }

    #[test]
    #[ignore = "needs root"]
    fn containers_that_a_user_makes_count_for_that_user() {
        let within = |unshares: &[&[&str]]| Contained::start(USER, unshares);
        for contained in [
            within(&[&["--user", "--map-root-user"]]),
            within(&[&["--user", "--map-root-user", "--pid", "--fork"]]),
            within(&[&["--user", "--map-root-user"], &["--user", "--pid", "--fork"]]),
        ] {
            assert_eq!(contained.party(USER + 1), Party::User(USER), "whatever ids it was lent");
        }
    }
}
