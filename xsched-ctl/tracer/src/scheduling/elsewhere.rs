//! The controller of a process where that is another one than the tracer asks, or none that it can reach: one of another folder,
//! another user's, or one that its container hides from it.
//!
//! A process looks for it where its own environment says, which sudo does not hand on, and in the files that it sees itself.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use xsched_control_api::folder::{Folder, VARIABLE};
use xsched_protocol::wire::{RECORD_SOCKET, SYSTEM_FOLDER, USER_FOLDER};
use xsched_terminal::one_line;

use super::source::{connect_to, is_trusted};

/// What file names of the shim begin with.
const SHIM: &str = "libxsched_shim";

/// Why the scheduling of a process will not be in the timeline, if that can be told. `is_asked`: there is a controller that
/// tells of its processes.
pub(super) fn notice(pid: u32, is_asked: bool) -> Option<String> {
    let why = why_not_asked(pid, is_asked)?;
    // What takes longest to find out: nobody else looks for one.
    let has_shim = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?.contains(SHIM);
    has_shim.then(|| format!("warning: scheduling of process {pid} is not in the timeline: {why}"))
}

/// Why a process with the shim, if it has that, is not under the controller that is asked, if it is known why. `is_asked`: there is
/// one.
pub(super) fn why_not_asked(pid: u32, is_asked: bool) -> Option<String> {
    let places = &Environment::of(pid)?.places()?;
    let root =
        openat(CWD, format!("/proc/{pid}/root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let asked: Vec<_> = Folder::candidates().iter().filter_map(|own| Socket::at(own.path()).ok()).collect();
    let found = places.iter().filter_map(|place| Some((place, Socket::within(&root, place).ok()?)));
    let found: Vec<_> = found.collect();
    if let Some((place, socket)) = found.iter().find(|(_, socket)| is_trusted_by(pid, socket.user)) {
        let is_asked = asked.iter().any(|own| own.file == socket.file);
        return (!is_asked).then(|| describe(place, socket));
    }
    if let Some((place, _)) = found.first() {
        let place = shown(place);
        return Some(format!(
            "it does not trust the controller in {place}, which is neither root's nor its own user's as far as its user namespace \
             knows"
        ));
    }
    // Without a controller there is nothing to be seen.
    let own = asked.first().filter(|_| is_asked)?.folder.as_path();
    let (own, all) = (shown(own), places.iter().map(|place| shown(place)).collect::<Vec<_>>().join(" or "));
    Some(if sees_other_files(pid) {
        format!("no controller is in {all} of its container: mount {own} there")
    } else {
        format!("it looks for its controller in {all}, where none is: this one is in {own}")
    })
}

/// Where a controller is that is not asked.
fn describe(place: &Path, socket: &Socket) -> String {
    let is_seen_here = Socket::at(place).is_ok_and(|own| own.file == socket.file);
    let place = shown(place);
    if !is_seen_here {
        return format!("its controller is in {place} of its container, where `xsched-ctl` asks it");
    }
    let why = if is_trusted(socket.user) {
        format!("`{VARIABLE}={place}` has this program ask it")
    } else {
        format!("it is user {}'s, who may have it recorded, or root may run one", socket.user)
    };
    format!("its controller is in {place}; {why}")
}

fn shown(place: &Path) -> String {
    one_line(&place.to_string_lossy()).into_owned()
}

/// A controller's socket for recorders, with somebody behind it: files may have been left.
struct Socket {
    folder: PathBuf,
    /// Device and inode.
    file: (u64, u64),
    user: u32,
}

impl Socket {
    /// That in a folder as this program sees it.
    fn at(folder: &Path) -> io::Result<Self> {
        let path = folder.join(RECORD_SOCKET);
        Self::behind(&openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?, folder)
    }

    /// That in a folder as somebody sees it whose root this is, symbolic links included.
    fn within(root: &OwnedFd, folder: &Path) -> io::Result<Self> {
        let (path, flags) = (folder.join(RECORD_SOCKET), OFlags::PATH | OFlags::CLOEXEC);
        Self::behind(&openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?, folder)
    }

    fn behind(opened: &OwnedFd, folder: &Path) -> io::Result<Self> {
        let file = fstat(opened)?;
        // Short enough for an address, whatever the folder is called.
        let (_, peer) = connect_to(&Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()))?;
        Ok(Self { folder: folder.to_owned(), file: (file.st_dev, file.st_ino), user: peer.uid })
    }
}

/// Whether the shim in a process follows a controller of this user: root, or its own, as the process's user namespace has them.
fn is_trusted_by(pid: u32, user: u32) -> bool {
    let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap_or_default();
    let own = fs::metadata(format!("/proc/{pid}")).map(|process| seen_as(&map, process.uid()));
    let seen = seen_as(&map, user);
    seen == 0 || own.is_ok_and(|own| own == seen)
}

/// What a user is called in a namespace with this map. Those that it does not have are all nobody there.
fn seen_as(map: &str, user: u32) -> u32 {
    /// `/proc/sys/kernel/overflowuid`, which nobody changes.
    const NOBODY: u32 = 65534;
    let seen = map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (inside, outside) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let distance = user.checked_sub(outside)?;
        (distance < numbers.next()?.ok()?).then_some(inside + distance)
    });
    seen.unwrap_or(NOBODY)
}

/// Whether paths mean something else to a process than here.
fn sees_other_files(pid: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let root = |process: &str| {
        let root = fs::metadata(format!("/proc/{process}/root")).ok()?;
        Some((root.dev(), root.ino()))
    };
    let pid = pid.to_string();
    namespace(&pid) != namespace("self") || root(&pid) != root("self")
}

/// What a process was started with.
struct Environment(Vec<u8>);

/// No program is started with more, arguments included. A process may say that any memory of its was that.
const ENVIRONMENT_LEN_MAX: u64 = 6 << 20;

impl Environment {
    /// None if it cannot be read, or is none.
    fn of(pid: u32) -> Option<Self> {
        Self::read(fs::File::open(format!("/proc/{pid}/environ")).ok()?)
    }

    fn read(from: impl io::Read) -> Option<Self> {
        let mut read = Vec::new();
        let len = from.take(ENVIRONMENT_LEN_MAX + 1).read_to_end(&mut read).ok()?;
        (len as u64 <= ENVIRONMENT_LEN_MAX).then_some(Self(read))
    }

    fn value(&self, name: &str) -> Option<&OsStr> {
        let mut values = self.0.split(|byte| *byte == 0);
        let value = values.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        (!value.is_empty()).then(|| OsStr::from_bytes(value))
    }

    /// Where the shim looks for a controller; None if it looks for none, or if it is not known where that is.
    fn places(&self) -> Option<Vec<PathBuf>> {
        let is_disabled = self.value("XSCHED_DISABLE").is_some_and(|value| value != "0");
        let scheduler =
            self.value("XSCHED_SCHEDULER").map(|name| name.to_string_lossy().trim().to_lowercase());
        if is_disabled || scheduler.is_some_and(|name| matches!(&*name, "lcl" | "local" | "app")) {
            return None;
        }
        let of_user = || self.value("XDG_RUNTIME_DIR").map(|folder| Path::new(folder).join(USER_FOLDER));
        let usual = || [PathBuf::from(SYSTEM_FOLDER)].into_iter().chain(of_user()).collect();
        let places: Vec<_> = self.value(VARIABLE).map_or_else(usual, |named| vec![named.into()]);
        places.iter().all(|place| place.is_absolute()).then_some(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_names_the_folders() {
        let places = |environment: &str| Environment(environment.into()).places();
        let named = Some(vec!["/x".into()]);
        assert_eq!(places("A=1\0XSCHED_SOCKET_DIR=/x\0XDG_RUNTIME_DIR=/run/user/7\0"), named);
        let usual = Some(vec!["/run/xsched".into(), "/run/user/7/xsched".into()]);
        assert_eq!(places("XSCHED_SOCKET_DIR=\0XDG_RUNTIME_DIR=/run/user/7\0"), usual);
        let machine = Some(vec!["/run/xsched".into()]);
        assert_eq!(places("MY_XSCHED_SOCKET_DIR=/x\0XSCHED_SOCKET_DIRS=/x\0"), machine);
        assert_eq!(places("XSCHED_SOCKET_DIR=x\0"), None, "it is not known where that is");
    }

    #[test]
    fn nobody_is_started_with_endless_words() {
        assert!(Environment::read(io::repeat(b'x')).is_none());
        let most = io::Read::take(io::repeat(b'x'), ENVIRONMENT_LEN_MAX);
        assert!(Environment::read(most).is_some());
    }

    #[test]
    fn who_wants_no_controller_looks_for_none() {
        let places = |environment: &str| Environment(environment.into()).places();
        for environment in ["XSCHED_DISABLE=1", "XSCHED_SCHEDULER=LCL", "XSCHED_SCHEDULER= app "] {
            assert_eq!(places(environment), None, "{environment}");
        }
        for environment in ["XSCHED_DISABLE=0", "XSCHED_DISABLE=", "XSCHED_SCHEDULER=GLB"] {
            assert!(places(environment).is_some(), "{environment}");
        }
    }

    #[test]
    fn a_user_namespace_has_names_of_its_own() {
        let host = "         0          0 4294967295\n";
        assert_eq!((seen_as(host, 0), seen_as(host, 1000)), (0, 1000));
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!((seen_as(rootless, 1000), seen_as(rootless, 100_004)), (0, 5));
        for unknown in [0, 999, 1001, 165_536] {
            assert_eq!(seen_as(rootless, unknown), 65534, "{unknown}");
        }
    }
}
