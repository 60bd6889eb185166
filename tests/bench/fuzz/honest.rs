//! An honest peer: a process that joins as a shim does, opens a queue, and reads its socket.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use xsched_protocol::arbiter_page::device_key;
use xsched_protocol::wire::{OpenClaim, PACKET_LEN_MAX, PacketKind};
use xsched_tests::peer::greeted;
use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::{Killed, Result};

/// The device that all processes use.
pub(crate) const DEVICE: u64 = device_key(0, 0x77, 0, 0);

/// A device used only after the attack.
pub(crate) const OTHER_DEVICE: u64 = device_key(0xfffe, 0x78, 0x1e, 0);

/// An honest process, which is killed when this is dropped.
pub(crate) struct Honest(Killed);

impl Honest {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        Self::start_on(folder, DEVICE)
    }

    pub(crate) fn start_on(folder: &Path, device: u64) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("honest").arg(folder).arg(device.to_string()).stdin(Stdio::piped());
        Ok(Self(Killed(command.spawn()?)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.0.id()
    }
}

pub(crate) fn main(folder: &Path, device: &str) -> Result<()> {
    let socket = greeted(folder)?;
    let open = OpenClaim {
        kind: PacketKind::OpenClaim as u32,
        request: 1,
        device: device.parse()?,
        stream_priority: 0,
        ..OpenClaim::new_zeroed()
    };
    send(&socket, open.as_bytes(), SendFlags::NOSIGNAL)?;
    thread::spawn(move || {
        let mut packet = [0; PACKET_LEN_MAX];
        // An empty packet means the end of the connection.
        while recv(&socket, &mut packet, RecvFlags::empty()).is_ok_and(|(len, _)| len > 0) {}
    });
    // Runs until the starting process ends.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
