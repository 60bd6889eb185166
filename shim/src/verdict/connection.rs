//! What the shim sends to the controller about calls, from the application's threads. Never waits: what a full socket
//! does not take now, the watcher sends later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_preload::fork::Renewable;
use xsched_protocol::wire::{Domain, KernelName, PacketKind, SchedulingDomain, Settings};
use xsched_xqueue::Connection;
use zerocopy::{Immutable, IntoBytes};

use crate::counters::{self, Trouble};

/// The connection, while there is one.
static SOCKET: Renewable<Mutex<Option<Arc<Connection>>>> = Renewable::new();

fn socket() -> MutexGuard<'static, Option<Arc<Connection>>> {
    SOCKET.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: the connection is its parent's.
pub(crate) fn renew_after_fork() {
    SOCKET.renew();
}

/// The connection to the controller, from now on; None: there is no controller.
pub(crate) fn set(connection: Option<Arc<Connection>>) {
    *socket() = connection;
}

/// A library has set its scheduling domain.
pub(crate) fn send_domain(path: &str, domain: SchedulingDomain) {
    send(&Domain::new(domain as u32, path.as_bytes()));
}

/// A kernel has a number.
pub(crate) fn send_kernel(number: u32, name: &str) {
    send(&KernelName::new(number, name.as_bytes()));
}

fn send(packet: &(impl IntoBytes + Immutable)) {
    let connection = socket().clone();
    if connection.is_some_and(|connection| connection.post(packet, None).is_err()) {
        counters::trouble(Trouble::UnsentReport);
    }
}

/// Sends the user's own rules, if there are any.
pub(crate) fn send_rules(text: &str) {
    let Some(connection) = socket().clone() else { return };
    let packet = Settings { kind: PacketKind::Settings as u32, len: text.len() as u32 };
    if !text.is_empty() && connection.post_with(&packet, text).is_err() {
        counters::trouble(Trouble::UnsentReport);
    }
}
