//! Starts the desktop's browser, where there is a desktop.

use std::{
    env, fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::{self, Command, Stdio},
};

/// Opens an address, or returns false where there is nobody to see it. `xdg-open` may stay until the browser
/// is closed, so it is not waited for.
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

/// As [`open`], without the address on a command line, which every user of this machine can read: the browser is given
/// a file that only this user can read, and that leads on. The file goes when the result is dropped.
pub(crate) fn open_privately(url: &str) -> Option<Signpost> {
    let signpost = Signpost::put_up(url).ok()?;
    open(&signpost.0.to_string_lossy()).then_some(signpost)
}

/// A file that leads a browser to an address.
#[derive(Debug)]
pub(crate) struct Signpost(PathBuf);

impl Signpost {
    /// `url` is one of ours: it has no character that means something in HTML.
    fn put_up(url: &str) -> io::Result<Self> {
        let folder = env::var_os("XDG_RUNTIME_DIR").map_or_else(env::temp_dir, PathBuf::from);
        let path = folder.join(format!("xsched-view-{}.html", process::id()));
        // What is left of an earlier process with this id; of another user's file this is refused, and so is the next.
        let _ = fs::remove_file(&path);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let signpost = Self(path);
        writeln!(
            file,
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">xsched-ctl view</a>"
        )?;
        Ok(signpost)
    }
}

impl Drop for Signpost {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_signpost_is_for_this_user_only_and_goes() {
        let signpost = Signpost::put_up("http://127.0.0.1:1/x/").unwrap();
        let path = signpost.0.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().contains("url=http://127.0.0.1:1/x/\""));
        drop(signpost);
        assert!(!path.exists());
    }
}
