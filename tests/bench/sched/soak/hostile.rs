//! Peers of the controller that mean ill.

use std::path::Path;

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};
use xsched_protocol::{
    arbiter_page::device_key,
    wire::{OpenQueue, PACKET_LEN_MAX, PacketKind},
};
use xsched_tests::peer::greeted;
use zerocopy::IntoBytes as _;

use super::random::Random;
use crate::Result;

const PACKETS: usize = 50;

/// Says what nobody understands, mostly in packets of kinds and lengths that exist.
pub(super) fn say_nonsense(folder: &Path, random: &mut Random) -> Result<()> {
    let mut socket = greeted(folder)?;
    for _ in 0..PACKETS {
        let mut packet = vec![random.below(9) as u8, 0, 0, 0];
        let len = [24, 48, 24, 48, random.below(PACKET_LEN_MAX as u64 + 8)][random.below(5) as usize];
        packet.resize_with(
            (len as usize).max(4),
            || if random.below(3) == 0 { random.next() as u8 } else { 0 },
        );
        if send(&socket, &packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
            // It was thrown out.
            socket = greeted(folder)?;
        }
    }
    Ok(())
}

/// Asks for queues and never reads an answer.
pub(super) fn fill_socket(folder: &Path) -> Result<()> {
    let socket = greeted(folder)?;
    let open = OpenQueue {
        kind: PacketKind::OpenQueue as u32,
        request: 0,
        device: device_key(0, 0x77, 0, 0),
        stream_priority: 0,
        reserved: 0,
    };
    for _ in 0..10_000 {
        match send(&socket, open.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN) => {}
            // It was thrown out.
            Err(_) => break,
        }
    }
    Ok(())
}
