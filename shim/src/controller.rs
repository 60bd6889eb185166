//! What the controller and the rest of the shim tell each other, besides the queues. Never waits.

mod hints;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use xsched_protocol::wire::{Domain, KernelName, PacketKind, SchedulingDomain, Settings, Verdicts};
use xsched_xqueue::{Device, HandedOut, Host, Library, Origin, PageError, Socket, XQueues};
use zerocopy::{Immutable, IntoBytes};

use crate::counters::{self, Trouble};
use crate::process::Renewable;
use crate::{domain, hooks, verdict};

/// The connection, while there is one.
static SOCKET: Renewable<Mutex<Option<Arc<Socket>>>> = Renewable::new();

fn socket() -> MutexGuard<'static, Option<Arc<Socket>>> {
    SOCKET.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: the connection is its parent's.
pub(crate) fn begin_afresh() {
    SOCKET.renew();
}

/// Starts the watcher of these queues, which talks to the controller.
pub(crate) fn start<D: Device>(queues: &Arc<XQueues<D>>) {
    xsched_xqueue::start_client(queues, hints::settings(), Box::new(Shim));
}

/// This library, as the queues' client sees it.
struct Shim;

impl Host for Shim {
    fn enter(&self) {
        hooks::stay_inside();
    }

    fn connect(&self, connection: Option<Arc<Socket>>) {
        let is_alone = connection.is_none();
        *socket() = connection;
        if is_alone {
            verdict::be_alone();
        }
    }

    fn forget_origins(&self) {
        verdict::forget_origins();
    }

    fn set_verdicts(&self, page: &OwnedFd, packet: Verdicts) -> Result<(), PageError> {
        if verdict::begin_asking(page, packet)? {
            tell_all();
        }
        Ok(())
    }

    fn set_rules(&self, rules: HandedOut) {
        verdict::set_rules(Some(rules));
    }

    fn origins(&self) -> Vec<(Origin, Library)> {
        verdict::origins()
    }
}

/// The controller decides about calls from now on: it hears all that was said before.
fn tell_all() {
    let Some(connection) = socket().clone() else { return };
    let settings = verdict::own_rules();
    if !settings.is_empty() && send_settings(&connection, &settings).is_err() {
        counters::trouble(Trouble::UnsentReport);
    }
    for (path, domain) in domain::of_libraries() {
        tell_domain(&path, domain);
    }
    for (number, name) in verdict::kernel_names() {
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
