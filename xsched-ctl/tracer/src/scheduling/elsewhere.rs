//! Processes under another controller than the one that the tracer asks: it uses another folder, belongs to another
//! user, or is hidden by a container.
//!
//! A process looks for its controller as its own environment says, which sudo does not pass on, and in its own view of
//! the file system.

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
use xsched_symbols::process_folder;
use xsched_terminal::one_line;

use super::source::{connect_to, is_trusted};

/// Beginnings of the shims' file names.
const SHIMS: [&str; 2] = ["libxsched_shim", "libxsched_cuda"];

/// Why the scheduling of a process will not be in the timeline, if that is known. `is_asked`: a controller reports its
/// processes to this tracer.
pub(super) fn notice(pid: u32, is_asked: bool) -> Option<String> {
    let why = why_not_asked(pid, is_asked)?;
    // Checked last because it is the slowest: programs without the shim look for no controller.
    let has_shim = has_shim(&fs::read_to_string(process_folder(pid).join("maps")).ok()?);
    has_shim.then(|| format!("warning: scheduling of process {pid} is not in the timeline: {why}"))
}

/// Whether a process with these mappings has a shim, for HIP or for CUDA.
fn has_shim(maps: &str) -> bool {
    SHIMS.iter().any(|shim| maps.contains(shim))
}

/// Why a process, if it has the shim, is not under the controller that is asked. None if that is not known. `is_asked`:
/// there is such a controller.
pub(super) fn why_not_asked(pid: u32, is_asked: bool) -> Option<String> {
    let places = &Environment::of(pid)?.places()?;
    let root =
        openat(CWD, process_folder(pid).join("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
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
    // Without a controller there is nothing to compare with.
    let own = asked.first().filter(|_| is_asked)?.folder.as_path();
    let (own, all) = (shown(own), places.iter().map(|place| shown(place)).collect::<Vec<_>>().join(" or "));
    Some(if sees_other_files(pid) {
        format!("no controller is in {all} of its container: mount {own} there")
    } else {
        format!("it looks for its controller in {all}, where none is: this one is in {own}")
    })
}

/// Describes a controller that is not asked.
fn describe(place: &Path, socket: &Socket) -> String {
    let is_seen_here = Socket::at(place).is_ok_and(|own| own.file == socket.file);
    let place = shown(place);
    if !is_seen_here {
        return format!("its controller is in {place} of its container, where `xsched-ctl` asks it");
    }
    let why = if is_trusted(socket.user) {
        format!("`{VARIABLE}={place}` makes this program ask it")
    } else {
        format!("only its user ({}) can record it; root can run a controller instead", socket.user)
    };
    format!("its controller is in {place}; {why}")
}

fn shown(place: &Path) -> String {
    one_line(&place.to_string_lossy()).into_owned()
}

/// A controller's socket for recorders on which a process listens: a stale file may remain.
struct Socket {
    folder: PathBuf,
    /// Device and inode.
    file: (u64, u64),
    user: u32,
}

impl Socket {
    /// The socket in a folder as this program sees it.
    fn at(folder: &Path) -> io::Result<Self> {
        let path = folder.join(RECORD_SOCKET);
        Self::behind(&openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?, folder)
    }

    /// The socket in a folder as a process with this root sees it, symbolic links included.
    fn within(root: &OwnedFd, folder: &Path) -> io::Result<Self> {
        let (path, flags) = (folder.join(RECORD_SOCKET), OFlags::PATH | OFlags::CLOEXEC);
        Self::behind(&openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?, folder)
    }

    fn behind(opened: &OwnedFd, folder: &Path) -> io::Result<Self> {
        let file = fstat(opened)?;
        // This path is short enough for a socket address, whatever the folder's name is.
        let (_, peer) = connect_to(&Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()))?;
        Ok(Self { folder: folder.to_owned(), file: (file.st_dev, file.st_ino), user: peer.uid })
    }
}

/// Whether the shim in a process trusts a controller of this user: root or the process's own user, as seen in the
/// process's user namespace.
fn is_trusted_by(pid: u32, user: u32) -> bool {
    let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap_or_default();
    let own = fs::metadata(format!("/proc/{pid}")).map(|process| seen_as(&map, process.uid()));
    let seen = seen_as(&map, user);
    seen == 0 || own.is_ok_and(|own| own == seen)
}

/// The number of a user in a namespace with this map. Unmapped users all have the overflow number.
fn seen_as(map: &str, user: u32) -> u32 {
    /// `/proc/sys/kernel/overflowuid`, at its default.
    const OVERFLOW_UID: u32 = 65534;
    let seen = map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (inside, outside) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let distance = user.checked_sub(outside)?;
        (distance < numbers.next()?.ok()?).then_some(inside + distance)
    });
    seen.unwrap_or(OVERFLOW_UID)
}

/// Whether a process sees another file system than this program.
fn sees_other_files(pid: u32) -> bool {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let root = |process: &Path| {
        let root = fs::metadata(process.join("root")).ok()?;
        Some((root.dev(), root.ino()))
    };
    let [process, own] = [&process_folder(pid), Path::new("/proc/self")];
    namespace(process) != namespace(own) || root(process) != root(own)
}

/// The environment that a process was started with.
struct Environment(Vec<u8>);

/// No program is started with more, arguments included. A process may declare any of its memory to be this
/// ([prctl(2)](https://man7.org/linux/man-pages/man2/prctl.2.html), `PR_SET_MM`).
const ENVIRONMENT_LEN_MAX: u64 = 6 << 20;

impl Environment {
    /// None if it cannot be read or is invalid.
    fn of(pid: u32) -> Option<Self> {
        Self::read(fs::File::open(process_folder(pid).join("environ")).ok()?)
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

    /// Where the shim looks for a controller. None if it looks for none, or the folder is unknown.
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
        assert_eq!(places("XSCHED_SOCKET_DIR=x\0"), None, "it is relative to an unknown folder");
    }

    #[test]
    fn an_endless_environment_is_refused() {
        assert!(Environment::read(io::repeat(b'x')).is_none());
        let most = io::Read::take(io::repeat(b'x'), ENVIRONMENT_LEN_MAX);
        assert!(Environment::read(most).is_some());
    }

    #[test]
    fn a_process_has_a_shim_for_either_runtime() {
        assert!(has_shim("7f00-7f01 r-xp 00000000 08:01 7 /usr/local/lib/libxsched_cuda.so\n"));
        assert!(has_shim("7f00-7f01 r-xp 00000000 08:01 7 /usr/local/lib/libxsched_shim.so\n"));
        assert!(!has_shim("7f00-7f01 r-xp 00000000 08:01 7 /usr/lib/libcuda.so.1\n"));
    }

    #[test]
    fn a_process_without_a_controller_looks_for_none() {
        let places = |environment: &str| Environment(environment.into()).places();
        for environment in ["XSCHED_DISABLE=1", "XSCHED_SCHEDULER=LCL", "XSCHED_SCHEDULER= app "] {
            assert_eq!(places(environment), None, "{environment}");
        }
        for environment in ["XSCHED_DISABLE=0", "XSCHED_DISABLE=", "XSCHED_SCHEDULER=GLB"] {
            assert!(places(environment).is_some(), "{environment}");
        }
    }

    #[test]
    fn a_user_namespace_has_its_own_numbers() {
        let host = "         0          0 4294967295\n";
        assert_eq!((seen_as(host, 0), seen_as(host, 1000)), (0, 1000));
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!((seen_as(rootless, 1000), seen_as(rootless, 100_004)), (0, 5));
        for unknown in [0, 999, 1001, 165_536] {
            assert_eq!(seen_as(rootless, unknown), 65534, "{unknown}");
        }
    }
}
