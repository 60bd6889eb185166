//! Code that no compiler would write.

use fastrand::Rng;
use xsched_gcn3::{Isa, Launch, Memory as _, Run, Step};

use crate::clang::ISAS;
use crate::support::Device;

/// Puts random dwords where a kernel's code is, most of them with the bits of known formats.
fn scramble(device: &mut Device, launch: &Launch, random: &mut Rng) {
    let object = u64::from_le_bytes(launch.packet[32..40].try_into().unwrap());
    let entry = device.memory.read_u64(object + 16).unwrap();
    let known = [0x8000_0000, 0xbe80_0000, 0xbf00_0000, 0xb000_0000, 0xc000_0000, 0, 0x7c00_0000];
    let known = [&known[..], &[0x7e00_0000, 0xd000_0000, 0xd800_0000, 0xdc00_0000, 0xe000_0000, 0xd380_0000]]
        .concat();
    for at in (0..512).step_by(4) {
        let word = match random.u32(..4) {
            0 => random.u32(..),
            // No branches far away, and no early end.
            _ => known[random.usize(..known.len())] | random.u32(..) & 0x03ff_ffff >> random.u32(..8),
        };
        device.memory.write_u32((object + entry).wrapping_add(at), word).unwrap();
    }
}

#[test]
fn random_code_faults_or_ends_and_never_panics() {
    let seeds: u64 = std::env::var("XSCHED_TEST_SEEDS").map_or(2000, |seeds| seeds.parse().unwrap());
    for isa in ISAS {
        random_code(isa, seeds);
    }
}

fn random_code(isa: Isa, seeds: u64) {
    let mut device = Device::new(isa, "groups");
    let buffer = device.buffer((0..256_u32).map(u32::to_le_bytes));
    device.argument(&buffer.to_le_bytes());
    let mut faults = 0;
    let mut executed = 0;
    for seed in 0..seeds {
        let mut random = Rng::with_seed(seed);
        let launch = device.launch("sum", [128, 1, 1], [128, 1, 1]);
        scramble(&mut device, &launch, &mut random);
        let mut run = Run::new(launch, &mut device.memory).unwrap();
        for _ in 0..4 {
            match run.step(&mut device.memory, 5_000) {
                Ok(Step::Done) => break,
                Ok(_) => {}
                Err(fault) => {
                    assert!(!fault.to_string().is_empty());
                    faults += 1;
                    break;
                }
            }
        }
        executed += run.executed();
    }
    // Most end at an operation that is refused, after a few that are not.
    assert!(faults > seeds / 2 && executed > 5 * seeds, "{faults} faults, {executed} instructions");
}
