//! The socket that the endpoint listens at.

use std::fs::{self, Metadata};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use xsched_control_api::socket_file;
use xsched_terminal::unreadable::folder_of;

use crate::error::MetricsError;
use crate::listen::{Access, Listen};

/// A socket that listens and does not block.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// The file of a unix socket, removed when this is dropped unless it is another socket's by then.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| identity(&found) == self.file) {
            // If that fails, the next controller finds that no process listens at it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Socket {
    pub(crate) fn make(listen: &Listen, access: Access) -> Result<(Self, Option<SocketFile>), MetricsError> {
        match listen {
            Listen::Tcp(address) => {
                if !listen.is_local() && !access.is_public {
                    return Err(MetricsError::Public(*address));
                }
                Ok((Self::Tcp(tcp(*address)?), None))
            }
            Listen::Unix(path) => {
                let (listener, file) = unix(path, access.mode)?;
                Ok((Self::Unix(listener), Some(file)))
            }
        }
    }
}

fn tcp(address: SocketAddr) -> Result<TcpListener, MetricsError> {
    let made = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    made.map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrInUse => MetricsError::InUse { address },
        _ => MetricsError::Tcp { address, cause },
    })
}

fn unix(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), MetricsError> {
    make_way(path)?;
    let made = UnixListener::bind(path).and_then(|listener| {
        let file = identity(&socket_file::set_mode(path, mode)?);
        listener.set_nonblocking(true)?;
        Ok((listener, SocketFile { path: path.to_owned(), file }))
    });
    made.map_err(|cause| MetricsError::Unix { path: path.to_owned(), cause })
}

/// Removes the socket that a killed controller has left.
fn make_way(path: &Path) -> Result<(), MetricsError> {
    let failed = |cause| MetricsError::Unix { path: path.to_owned(), cause };
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(MetricsError::NotSocket(path.to_owned())),
        // A socket whose process has ended refuses connections.
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(failed)
            }
            _ => Err(MetricsError::Live(path.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if folder_of(path).is_dir() {
                Ok(())
            } else {
                Err(MetricsError::NoFolder(path.to_owned()))
            }
        }
        Err(cause) => Err(failed(cause)),
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(path: &Path) -> Result<(Socket, Option<SocketFile>), MetricsError> {
        Socket::make(&Listen::Unix(path.to_owned()), Access { mode: 0o600, ..Access::default() })
    }

    #[test]
    fn a_socket_replaces_only_one_that_was_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let (socket, file) = make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(make(&path), Err(MetricsError::Live(_))));
        // A killed controller leaves the file.
        std::mem::forget(file);
        drop(socket);
        let (_socket, file) = make(&path).unwrap();
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        assert!(matches!(make(&path), Err(MetricsError::NotSocket(_))));
        assert!(matches!(make(&folder.path().join("no/metrics.sock")), Err(MetricsError::NoFolder(_))));
    }

    #[test]
    fn another_socket_at_the_path_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let (_first, file) = make(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, _file) = make(&path).unwrap();
        drop(file);
        assert!(path.exists());
    }

    #[test]
    fn a_port_in_use_and_a_public_address_are_refused() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = Listen::Tcp(taken.local_addr().unwrap());
        assert!(matches!(Socket::make(&listen, Access::default()), Err(MetricsError::InUse { .. })));
        let everywhere: Listen = "0.0.0.0:0".parse().unwrap();
        assert!(matches!(Socket::make(&everywhere, Access::default()), Err(MetricsError::Public(_))));
        let access = Access { is_public: true, ..Access::default() };
        assert!(Socket::make(&everywhere, access).is_ok());
    }
}
