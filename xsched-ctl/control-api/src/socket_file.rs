//! The files of sockets.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Sets the mode of the socket that was bound to a path, and returns what it is. Until then the umask decides which users may connect.
///
/// # Errors
/// There is no socket at the path. In a folder that another user may change, a link may be there by now: it is not followed.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<Metadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.file_type().is_socket() {
        return Err(io::Error::other("another file has taken the socket's place"));
    }
    // The mode of a file that was opened as a mere reference is set by this path (man 2 open, `O_PATH`).
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))?;
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_sockets_mode_is_set_and_that_of_a_link_in_its_place_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [socket, link, file] = ["socket", "link", "file"].map(|name| folder.path().join(name));
        let _listener = UnixListener::bind(&socket).unwrap();
        set_mode(&socket, 0o642).unwrap();
        assert_eq!(mode_of(&socket), 0o642);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        for other in [&link, &file] {
            let refused = set_mode(other, 0o666).unwrap_err();
            assert_eq!(refused.to_string(), "another file has taken the socket's place");
        }
        assert_eq!(mode_of(&file), 0o600);
    }
}
