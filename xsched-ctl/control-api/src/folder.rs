//! Where the controller's sockets are.

use std::env;
use std::path::{Path, PathBuf};

use xsched_protocol::wire::{RECORD_SOCKET, SHIM_SOCKET, SYSTEM_FOLDER, USER_FOLDER};

/// Names another folder than the usual ones, for controller, commands and shims alike.
pub const VARIABLE: &str = "XSCHED_SOCKET_DIR";

/// File name of the socket that commands connect to.
const CONTROL_SOCKET: &str = "control.sock";

/// File name of what a controller has locked while it lives.
const LOCK: &str = "lock";

/// A folder with the sockets of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// Where a controller of this user puts its sockets. None if the user has no folder for such things.
    pub fn own() -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        Self::named().or_else(|| if is_root { Some(Self(SYSTEM_FOLDER.into())) } else { Self::of_user() })
    }

    /// Where a controller may be found, likeliest first: the machine's is there for everybody.
    pub fn candidates() -> Vec<Self> {
        match Self::named() {
            Some(named) => vec![named],
            None => std::iter::once(Self(SYSTEM_FOLDER.into())).chain(Self::of_user()).collect(),
        }
    }

    fn named() -> Option<Self> {
        env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(|folder| Self(folder.into()))
    }

    fn of_user() -> Option<Self> {
        let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
        Some(Self(Path::new(&runtime).join(USER_FOLDER)))
    }

    /// This one.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where shims connect.
    pub fn shim_socket(&self) -> PathBuf {
        self.0.join(SHIM_SOCKET)
    }

    /// Where recorders connect.
    pub fn record_socket(&self) -> PathBuf {
        self.0.join(RECORD_SOCKET)
    }

    /// Where commands connect.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join(CONTROL_SOCKET)
    }

    /// What the controller has locked while it lives.
    pub fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }
}
