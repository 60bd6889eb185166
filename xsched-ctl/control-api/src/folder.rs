//! The folder of the controller's sockets.

use std::env;
use std::path::{Path, PathBuf};

use xsched_protocol::wire::{RECORD_SOCKET, SHIM_SOCKET, SYSTEM_FOLDER, USER_FOLDER};

/// Names another folder than the default ones, for controller, commands and shims alike.
pub const VARIABLE: &str = "XSCHED_SOCKET_DIR";

/// File name of the socket that commands connect to.
const CONTROL_SOCKET: &str = "control.sock";

/// File name of the lock that a controller holds while it lives.
const LOCK: &str = "lock";

/// A folder with the sockets of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder for a controller of this user. None if the user has no such folder.
    pub fn own() -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        Self::named().or_else(|| if is_root { Some(Self(SYSTEM_FOLDER.into())) } else { Self::of_user() })
    }

    /// Where a controller may be found, the likeliest first: the machine's serves all users.
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

    /// This folder.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket for shims.
    pub fn shim_socket(&self) -> PathBuf {
        self.0.join(SHIM_SOCKET)
    }

    /// The socket for recorders.
    pub fn record_socket(&self) -> PathBuf {
        self.0.join(RECORD_SOCKET)
    }

    /// The socket for commands.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join(CONTROL_SOCKET)
    }

    /// The file that the controller keeps locked while it lives.
    pub fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }
}
