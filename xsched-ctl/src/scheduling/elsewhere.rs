//! The controller of a process where that is another one than the tracer asks, if any: one of another folder, or another user's.
//!
//! A process looks for it where its own environment says, which sudo does not hand on.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use xsched_abi::wire::USER_FOLDER;

use super::source::{connect_to, is_trusted};
use crate::control::folder::{Folder, VARIABLE};
use crate::say::one_line;

/// What file names of the shim begin with.
const SHIM: &str = "libxsched_shim";

/// Why the scheduling of a process will not be in the timeline, if there is a controller of its own that is not asked.
pub(super) fn notice(pid: u32) -> Option<String> {
    let folder = folder_of(&fs::read(format!("/proc/{pid}/environ")).ok()?)?;
    let is_asked = Folder::candidates().iter().any(|own| own.path() == folder);
    if is_asked || !fs::read_to_string(format!("/proc/{pid}/maps")).ok()?.contains(SHIM) {
        return None;
    }
    // Somebody has to be there: files may have been left.
    let (_, peer) = connect_to(&Folder::at(&folder).record_socket()).ok()?;
    let place = one_line(&folder.to_string_lossy()).into_owned();
    let why = if is_trusted(peer.uid) {
        format!("`{VARIABLE}={place}` has this program ask it")
    } else {
        format!("it is user {}'s, who may have it recorded, or root may run one", peer.uid)
    };
    Some(format!(
        "warning: scheduling of process {pid} is not in the timeline: its controller is in {place}; {why}"
    ))
}

/// Where a process with this environment finds a controller that is not the machine's.
fn folder_of(environment: &[u8]) -> Option<PathBuf> {
    let value = |name: &str| {
        let mut values = environment.split(|byte| *byte == 0);
        let value = values.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        (!value.is_empty()).then(|| Path::new(OsStr::from_bytes(value)))
    };
    let folder = value(VARIABLE)
        .map(Path::to_owned)
        .or_else(|| value("XDG_RUNTIME_DIR").map(|runtime| runtime.join(USER_FOLDER)));
    folder.filter(|folder| folder.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_names_the_folder() {
        let folder = |environment: &str| folder_of(environment.as_bytes());
        assert_eq!(folder("A=1\0XSCHED_SOCKET_DIR=/x\0XDG_RUNTIME_DIR=/run/user/7\0"), Some("/x".into()));
        let of_user = Some("/run/user/7/xsched".into());
        assert_eq!(folder("XSCHED_SOCKET_DIR=\0XDG_RUNTIME_DIR=/run/user/7\0"), of_user);
        assert_eq!(folder("MY_XSCHED_SOCKET_DIR=/x\0XSCHED_SOCKET_DIRS=/x\0"), None);
        assert_eq!(folder("XSCHED_SOCKET_DIR=x\0"), None, "it is not known where that is");
        assert_eq!(folder(""), None);
    }
}
