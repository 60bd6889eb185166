//! What the shim sends to the controller about calls, from the application's threads. Never waits: what a full socket
//! does not take now, the watcher sends later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_protocol::wire::{Domain, KernelName, PacketKind, SchedulingDomain, Settings};
use xsched_xqueue::Connection;
use zerocopy::{Immutable, IntoBytes};

use crate::fork::Renewable;

/// The controller could not be told: the connection has ended, or too much waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untold;

/// The connection, while there is one.
static SOCKET: Renewable<Mutex<Option<Arc<Connection>>>> = Renewable::new();

fn socket() -> MutexGuard<'static, Option<Arc<Connection>>> {
    SOCKET.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: the connection is its parent's.
pub fn renew_after_fork() {
    SOCKET.renew();
}

/// The connection to the controller, from now on; None: there is no controller.
pub fn set(connection: Option<Arc<Connection>>) {
    *socket() = connection;
}

/// A library has set its scheduling domain.
///
/// # Errors
/// The controller could not be told.
pub fn domain(path: &str, domain: SchedulingDomain) -> Result<(), Untold> {
    send(&Domain::new(domain as u32, path.as_bytes()))
}

/// A kernel has a number.
///
/// # Errors
/// The controller could not be told.
pub fn kernel(number: u32, name: &str) -> Result<(), Untold> {
    send(&KernelName::new(number, name.as_bytes()))
}

fn send(packet: &(impl IntoBytes + Immutable)) -> Result<(), Untold> {
    let Some(connection) = socket().clone() else { return Ok(()) };
    connection.post(packet, None).map_err(|_| Untold)
}

/// The user's own rules, if there are any.
///
/// # Errors
/// The controller could not be told.
pub fn rules(text: &str) -> Result<(), Untold> {
    let Some(connection) = socket().clone().filter(|_| !text.is_empty()) else { return Ok(()) };
    let packet = Settings { kind: PacketKind::Settings as u32, len: text.len() as u32 };
    connection.post_with(&packet, text).map_err(|_| Untold)
}
