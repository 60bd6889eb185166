//! Starts the desktop's browser, where there is a desktop.

use std::{
    env,
    process::{Command, Stdio},
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
