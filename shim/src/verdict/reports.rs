//! What the controller is told of calls: the user's own rules, scheduling domains, names of kernels. Never waits.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use xsched_protocol::wire::{Domain, KernelName, PacketKind, SchedulingDomain, Settings};
use xsched_xqueue::Socket;
use zerocopy::{Immutable, IntoBytes};

use crate::ground::counters::{self, Trouble};
use crate::ground::fork::Renewable;
use crate::verdict::{domain, kernel_names, local};

/// The connection, while there is one.
static SOCKET: Renewable<Mutex<Option<Arc<Socket>>>> = Renewable::new();

fn socket() -> MutexGuard<'static, Option<Arc<Socket>>> {
    SOCKET.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: the connection is its parent's.
pub(super) fn begin_afresh() {
    SOCKET.renew();
}

/// There is a controller from now on, or there is none.
pub(super) fn connect(connection: Option<Arc<Socket>>) {
    *socket() = connection;
}

/// The controller decides about calls from now on: it hears all that was said before.
pub(super) fn tell_all() {
    let Some(connection) = socket().clone() else { return };
    let settings = local::own_rules();
    if !settings.is_empty() && send_settings(&connection, &settings).is_err() {
        counters::trouble(Trouble::UnsentReport);
    }
    for (path, domain) in domain::of_libraries() {
        tell_domain(&path, domain);
    }
    for (number, name) in kernel_names::all() {
        tell_kernel(number, &name);
    }
}

/// A library has said what its calls are.
pub(crate) fn tell_domain(path: &str, domain: SchedulingDomain) {
    tell(&Domain::new(domain as u32, path.as_bytes()));
}

/// A kernel has a number.
pub(crate) fn tell_kernel(number: u32, name: &str) {
    tell(&KernelName::new(number, name.as_bytes()));
}

fn tell(packet: &(impl IntoBytes + Immutable)) {
    let connection = socket().clone();
    if connection.is_some_and(|connection| connection.send(packet).is_err()) {
        counters::trouble(Trouble::UnsentReport);
    }
}

/// The user's own rules, in a file in memory that nobody can change any more.
fn send_settings(connection: &Socket, text: &str) -> Result<(), Errno> {
    let file = memfd_create("xsched-settings", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC)?;
    let mut left = text.as_bytes();
    while !left.is_empty() {
        left = &left[rustix::io::write(&file, left)?..];
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    let packet = Settings { kind: PacketKind::Settings as u32, len: text.len() as u32 };
    connection.send_with(&packet, file.as_fd())
}
