//! The folder of the sockets, which belongs to one controller at a time.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;
use xsched_control_api::{
    folder::{Folder, VARIABLE},
    peer::Peer,
    socket_file,
};
use xsched_terminal::{Advice, ExitCode, unreadable::folder_of};

use super::foreign;
use super::socket::Listener;

/// Why the sockets could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("no folder for the sockets: neither root, nor XDG_RUNTIME_DIR, nor {VARIABLE}")]
    NoFolder,
    #[error("a controller is running already{}, in {folder}", process(*.pid))]
    Taken {
        /// Its process, if it can be seen from here.
        pid: Option<u32>,
        folder: PathBuf,
    },
    #[error("cannot make {path}: {cause}")]
    NotMade {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

impl Advice for PlaceError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoFolder => format!("run it as root, or set {VARIABLE} to a folder"),
            Self::Taken { pid: Some(pid), .. } => {
                format!(
                    "`xsched-ctl list` shows its state; `kill {pid}` ends it; `xsched-ctl off --force` ends one that hangs"
                )
            }
            // The noted id may belong to an unrelated process here.
            Self::Taken { pid: None, .. } => {
                "`xsched-ctl list` shows its state; it belongs to another user or to a container, and must be stopped there".to_owned()
            }
            Self::NotMade { cause, .. } if cause.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                format!("set {VARIABLE} to a folder that can be written, such as one in /run")
            }
            Self::NotMade { path, cause } if cause.kind() == io::ErrorKind::StorageFull => {
                format!(
                    "free space there (`df {}`), or set {VARIABLE} to another folder",
                    folder_of(path).display()
                )
            }
            Self::NotMade { .. } => format!("run it as root, or set {VARIABLE} to a folder that is yours"),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoFolder | Self::NotMade { .. } => ExitCode::CannotCreate,
            Self::Taken { .. } => ExitCode::Unavailable,
        }
    }
}

/// The claimed folder. The claim ends with the process, however it ends.
pub(crate) struct Place {
    folder: Folder,
    /// Locked for as long as it is open.
    _lock: File,
}

pub(crate) struct Sockets {
    pub(crate) shims: Listener,
    pub(crate) commands: UnixListener,
    pub(crate) recorders: Listener,
}

impl Place {
    /// Claims a folder, and creates it if necessary.
    pub(crate) fn claim(folder: Folder) -> Result<Self, PlaceError> {
        let is_there = folder.path().exists();
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(folder.path());
        // Other users must be able to enter, whatever the umask is. A folder that existed before keeps its mode.
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let made_folder = || OpenOptions::new().read(true).custom_flags(flags).open(folder.path());
        let opened = || made_folder()?.set_permissions(Permissions::from_mode(0o755));
        made.and_then(|()| if is_there { Ok(()) } else { opened() }).map_err(not_made(folder.path()))?;
        let path = folder.lock();
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(not_made(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            // Only for the message. This process has the file open too, but has not written its id into it.
            let pid = Peer::of_lock(&path).map(|holder| holder.pid);
            return Err(PlaceError::Taken { pid, folder: folder.path().to_owned() });
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(not_made(&path))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Creates the sockets, in place of those that a predecessor may have left. Any process that reaches the folder may
    /// connect; its rights depend on its identity.
    pub(crate) fn listen(&self) -> Result<Sockets, PlaceError> {
        let folder = &self.folder;
        let (shims, commands, recorders) =
            (folder.shim_socket(), folder.control_socket(), folder.record_socket());
        self.remove_sockets();
        let shim_listener = Listener::bind(&shims).map_err(not_made(&shims))?;
        let command_listener = UnixListener::bind(&commands).map_err(not_made(&commands))?;
        // Older kernels cannot; requests with descriptors are not taken, either.
        foreign::refuse(&command_listener);
        let recorder_listener = Listener::bind(&recorders).map_err(not_made(&recorders))?;
        for path in [&shims, &commands, &recorders] {
            socket_file::set_mode(path, 0o666).map_err(not_made(path))?;
        }
        Ok(Sockets { shims: shim_listener, commands: command_listener, recorders: recorder_listener })
    }

    /// Removes the sockets, so that no process tries to connect.
    pub(crate) fn remove_sockets(&self) {
        let folder = &self.folder;
        for path in [folder.shim_socket(), folder.control_socket(), folder.record_socket()] {
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!("cannot remove {}: {error}", path.display()),
            }
        }
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(": process {pid}")).unwrap_or_default()
}

fn not_made(path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
    let path = path.to_owned();
    move |cause| PlaceError::NotMade { path, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_a_full_disk_does_not_name_root() {
        let refused = |kind: io::ErrorKind| {
            PlaceError::NotMade { path: "/run/xsched/lock".into(), cause: kind.into() }.hint().unwrap()
        };
        assert!(refused(io::ErrorKind::PermissionDenied).contains("as root"));
        let full = refused(io::ErrorKind::StorageFull);
        assert!(full.contains("df /run/xsched`") && !full.contains("root"), "{full}");
        let read_only = refused(io::ErrorKind::ReadOnlyFilesystem);
        assert!(read_only.contains("can be written") && !read_only.contains("root"), "{read_only}");
    }

    #[tokio::test]
    async fn one_controller_to_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("new"));
        let place = Place::claim(folder.clone()).unwrap();
        let refused = Place::claim(folder.clone()).err().unwrap();
        assert!(matches!(&refused, PlaceError::Taken { pid: Some(pid), .. } if *pid == std::process::id()));
        // The id that a container's controller has written may belong to another process here, or to none.
        fs::write(folder.lock(), "1\n").unwrap();
        let refused = Place::claim(folder.clone()).err().unwrap();
        assert!(
            matches!(refused, PlaceError::Taken { pid: None, .. })
                && !refused.hint().unwrap().contains("kill")
        );
        // A killed predecessor leaves this behind.
        fs::write(folder.shim_socket(), "").unwrap();
        drop(place.listen().unwrap());
        drop(place);
        let next = Place::claim(folder.clone()).unwrap();
        drop(next.listen().unwrap());
        next.remove_sockets();
        assert!(!folder.shim_socket().exists() && !folder.control_socket().exists());
    }
}
