//! Starts the desktop's browser, if there is a desktop.

use std::{
    env, fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::{self, Command, Stdio},
};

/// Opens an address; returns false if there is no desktop. `xdg-open` may run until the browser is closed, so this does not
/// wait for it.
pub(crate) fn open(url: &str) -> bool {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some());
    has_desktop
        && Command::new("xdg-open")
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .is_ok()
}

/// Like [`open`], but without the address on a command line, which every user of this machine can read. The browser gets a
/// file that only this user can read and that redirects to the address. The file is removed when the result is dropped.
pub(crate) fn open_privately(url: &str) -> Option<RedirectFile> {
    let redirect = RedirectFile::create(url).ok()?;
    open(&redirect.0.to_string_lossy()).then_some(redirect)
}

/// A file that redirects a browser to an address.
#[derive(Debug)]
pub(crate) struct RedirectFile(PathBuf);

impl RedirectFile {
    /// `url` is an address of this program: no character in it has a meaning in HTML.
    fn create(url: &str) -> io::Result<Self> {
        let folder = env::var_os("XDG_RUNTIME_DIR").map_or_else(env::temp_dir, PathBuf::from);
        let path = folder.join(format!("xsched-view-{}.html", process::id()));
        // Removes the file of an earlier process with this id. For another user's file, this and the next call fail.
        let _ = fs::remove_file(&path);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let redirect = Self(path);
        writeln!(
            file,
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">xsched-ctl view</a>"
        )?;
        Ok(redirect)
    }
}

impl Drop for RedirectFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_redirect_file_is_private_and_removed_on_drop() {
        let redirect = RedirectFile::create("http://127.0.0.1:1/x/").unwrap();
        let path = redirect.0.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().contains("url=http://127.0.0.1:1/x/\""));
        drop(redirect);
        assert!(!path.exists());
    }
}
