//! What the render node answers: the version of its driver, and what kind of GPU it is.

use std::ptr;

use rustix::io::Errno;

use crate::abi::{DrmInfo, DrmVersion};
use crate::clock::DEVICE_KHZ;
use crate::log;
use crate::request::Request;
use crate::space::VRAM_BYTES;

/// DRM's requests by number. Those of amdgpu begin at 0x40.
const VERSION: u32 = 0x00;
const CLIENT: u32 = 0x05;
const INFO: u32 = 0x45;

/// What `INFO` can ask for: the numbers of `AMDGPU_INFO_*`.
const ACCEL_WORKING: u32 = 0x00;
const BLOCK: u32 = 0x02;
const BLOCK_COUNT: u32 = 0x03;
const FIRMWARE: u32 = 0x0e;
const REGISTERS: u32 = 0x15;
const DEVICE: u32 = 0x16;
const MEMORY: u32 = 0x19;

/// Answers one request.
pub(crate) fn answer(asked: &Request) -> Result<(), Errno> {
    match asked.number {
        VERSION => asked.with(|version: &mut DrmVersion| {
            (version.major, version.minor, version.patch) = (3, 54, 0);
            version.name_length = put(version.name, version.name_length, b"amdgpu");
            version.date_length = put(version.date, version.date_length, b"0");
            version.description_length = put(version.description, version.description_length, b"AMD GPU");
            Ok(())
        }),
        // Whether it may draw on a screen: 0, as it stands there.
        CLIENT => Ok(()),
        INFO => asked.with(|info: &mut DrmInfo| {
            let answer = match info.query {
                ACCEL_WORKING => 1_u32.to_le_bytes().to_vec(),
                DEVICE => device(),
                MEMORY => memory(),
                // No block draws, nothing depends on firmware, and the registers are those of graphics.
                BLOCK | BLOCK_COUNT | FIRMWARE | REGISTERS => vec![0; info.size as usize],
                other => {
                    log::complain(format_args!("information {other:#04x} of the render node is not there"));
                    return Err(Errno::INVAL);
                }
            };
            put(info.answer, u64::from(info.size), &answer);
            Ok(())
        }),
        other => {
            log::complain(format_args!("request {other:#04x} of the render node is not answered"));
            Err(Errno::INVAL)
        }
    }
}

/// Copies as much as the caller has room for; returns how much there is.
fn put(address: u64, room: u64, bytes: &[u8]) -> u64 {
    let target: *mut u8 = ptr::with_exposed_provenance_mut(address as usize);
    if !target.is_null() {
        let count = bytes.len().min(room as usize);
        // SAFETY: the caller has said how much room there is.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, count) };
    }
    bytes.len() as u64
}

/// `drm_amdgpu_info_device`: a Vega 10 with 64 compute units.
fn device() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let mut word = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    word(0, 0x687f); // device
    word(4, 1); // revision of the chip
    word(8, 1);
    word(12, 0xc1); // revision on PCI: the name in amdgpu.ids goes by it
    word(16, 141); // family: Vega
    word(20, 4); // shader engines
    word(24, 1); // arrays of each
    word(28, DEVICE_KHZ);
    word(32, 1_630_000); // highest clocks, in kHz
    word(40, 945_000);
    word(48, 64); // compute units
    for engine in 0..4 {
        word(56 + engine * 16, 0xffff); // their bits
    }
    word(144, 2 << 20); // first and last address, and alignment
    word(156, 1 << 15);
    word(160, 4096);
    word(164, 4096);
    word(168, 4096);
    word(176, 6); // memory: HBM
    word(180, 2048); // bits of its bus
    bytes
}

/// `drm_amdgpu_memory_info`: of the device's memory, its visible part and the host's: total, usable, used, largest.
fn memory() -> Vec<u8> {
    [VRAM_BYTES, VRAM_BYTES, 0, VRAM_BYTES].repeat(3).into_iter().flat_map(u64::to_le_bytes).collect()
}
