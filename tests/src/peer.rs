//! A stand-in for a shim, which speaks the shim's protocol to the controller.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use xsched_protocol::arbiter_page::PAGE_VERSION;
use xsched_protocol::probe::Runtime;
use xsched_protocol::wire::{Hello, PacketKind, SHIM_SOCKET, WIRE_VERSION};
use zerocopy::{FromZeros as _, IntoBytes as _};

/// Connects to any socket of the controller.
///
/// # Errors
///
/// Those of the system calls.
pub fn connected(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The first packet of a shim that has no hints.
#[must_use]
pub fn hello() -> Hello {
    Hello {
        kind: PacketKind::Hello as u32,
        version: WIRE_VERSION,
        page_version: PAGE_VERSION,
        runtime: Runtime::Hip.number(),
        ..Hello::new_zeroed()
    }
}

/// Connects to the controller whose sockets are in this folder, and sends the first packet.
///
/// # Errors
///
/// Those of the system calls.
pub fn greeted(folder: &Path) -> Result<OwnedFd, Errno> {
    let socket = connected(&folder.join(SHIM_SOCKET), SocketType::SEQPACKET)?;
    send(&socket, hello().as_bytes(), SendFlags::NOSIGNAL)?;
    Ok(socket)
}
