//! Tells a service manager the controller's state by the protocol of
//! [sd_notify(3)](https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html): one datagram for each
//! message.
//!
//! Not by the crate `sd-notify` (0.5): it waits while the manager does not read, and knows no abstract sockets.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// The one that the environment names.
    pub(crate) fn of_environment() -> io::Result<Self> {
        Self::at(env::var_os("NOTIFY_SOCKET"))
    }

    fn at(name: Option<OsString>) -> io::Result<Self> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(Self(None)) };
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self(Some((socket, address))))
    }

    /// Sends a message such as `READY=1`.
    pub(crate) fn tell(&self, message: &str) {
        if let Some((socket, address)) = &self.0 {
            // A manager that does not listen changes nothing for the controller.
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

/// The message that files are being reloaded, until the next `READY=1`. The time lets the manager match it to its
/// request
/// ([`Type=notify-reload`](https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Type=)).
pub(crate) fn reloading() -> String {
    let now = clock_gettime(ClockId::Monotonic);
    let us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
    format!("RELOADING=1\nMONOTONIC_USEC={us}")
}

/// How often to send watchdog messages: twice in the time that the manager allows. None if it does not want them.
pub(crate) fn watchdog() -> Option<Duration> {
    let allowed = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    Some(Duration::from_micros(allowed) / 2).filter(|half| !half.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_notified() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        Manager::at(Some(path.into())).unwrap().tell("READY=1");
        let mut message = [0; 16];
        let len = manager.recv(&mut message).unwrap();
        assert_eq!(&message[..len], b"READY=1");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        Manager::at(None).unwrap().tell("READY=1");
        Manager::at(Some("/nonexistent/socket".into())).unwrap().tell("READY=1");
    }
}
