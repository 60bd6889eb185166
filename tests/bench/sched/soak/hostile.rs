//! Hostile peers of the controller.

use std::path::Path;

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};
use xsched_protocol::{
    arbiter_page::device_key,
    wire::{OpenClaim, PACKET_LEN_MAX, PacketKind},
};
use xsched_tests::peer::greeted;
use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::result::Result;

const PACKETS: usize = 50;

/// Sends packets that are mostly invalid, of kinds and lengths that exist.
pub(super) fn send_invalid(folder: &Path, random: &mut fastrand::Rng) -> Result<()> {
    let mut socket = greeted(folder)?;
    for _ in 0..PACKETS {
        let mut packet = vec![random.u8(..9), 0, 0, 0];
        let len = [24, 48, 24, 48, random.usize(..PACKET_LEN_MAX + 8)][random.usize(..5)];
        packet.resize_with(len.max(4), || if random.u8(..3) == 0 { random.u8(..) } else { 0 });
        if send(&socket, &packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
            // The controller has closed the connection.
            socket = greeted(folder)?;
        }
    }
    Ok(())
}

/// Requests queues and never reads an answer.
pub(super) fn fill_socket(folder: &Path) -> Result<()> {
    let socket = greeted(folder)?;
    let open = OpenClaim {
        kind: PacketKind::OpenClaim as u32,
        request: 0,
        device: device_key(0, 0x77, 0, 0),
        stream_priority: 0,
        ..OpenClaim::new_zeroed()
    };
    for _ in 0..10_000 {
        match send(&socket, open.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN) => {}
            // The controller has closed the connection.
            Err(_) => break,
        }
    }
    Ok(())
}
