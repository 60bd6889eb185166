//! Kernels that clang compiled, and the same in Rust: control, memory and groups. Arithmetic is in its modules.

mod floats;
mod generations;
mod integers;

use fastrand::Rng;
use xsched_gcn3::{Cause, Isa, Memory as _, Run, Step};

use crate::clang::ISAS;
use crate::support::Device;

fn words(count: usize, random: &mut Rng) -> Vec<u32> {
    // Small ones and extremes are frequent.
    let special = [0, 1, 2, 31, 32, u32::MAX, 0x8000_0000, 0x7fff_ffff, 0xffff, 0x8000];
    (0..count)
        .map(|_| match random.u32(..4) {
            0 => special[random.usize(..special.len())],
            1 => random.u32(..1000),
            _ => random.u32(..),
        })
        .collect()
}

fn u32s(device: &mut Device, at: u64, count: usize) -> Vec<u32> {
    device.read(at, count).into_iter().map(u32::from_le_bytes).collect()
}

fn f32s(device: &mut Device, at: u64, count: usize) -> Vec<f32> {
    device.read(at, count).into_iter().map(f32::from_le_bytes).collect()
}

/// Runs a kernel from one buffer of dwords to another of the same length.
fn mapped(isa: Isa, file: &str, kernel: &str, from: &[u32]) -> Vec<u32> {
    let mut device = Device::new(isa, file);
    device.buffer(from.iter().map(|word| word.to_le_bytes()));
    let to = device.buffer(from.iter().map(|_| [0; 4]));
    device.run(kernel, [from.len() as u32, 1, 1], [256, 1, 1]);
    u32s(&mut device, to, from.len())
}

#[test]
fn saxpy_writes_what_it_should_and_nothing_else() {
    for isa in ISAS {
        let mut device = Device::new(isa, "basic");
        let x: Vec<f32> = (0..1024).map(|i| i as f32 * 0.25).collect();
        let y: Vec<f32> = (0..1024).map(|i| 1000.0 - i as f32).collect();
        device.argument(&2.5_f32.to_le_bytes());
        device.buffer(x.iter().map(|value| value.to_le_bytes()));
        let to = device.buffer(y.iter().map(|value| value.to_le_bytes()));
        device.argument(&1000_i32.to_le_bytes());
        let executed = device.run("saxpy", [1024, 1, 1], [256, 1, 1]);
        let expected: Vec<f32> = (0..1024).map(|i| if i < 1000 { 2.5 * x[i] + y[i] } else { y[i] }).collect();
        assert_eq!(f32s(&mut device, to, 1024), expected);
        assert!((16 * 10..16 * 50).contains(&executed), "{executed}");
    }
}

#[test]
fn lanes_leave_loops_at_different_times() {
    for isa in ISAS {
        let from: Vec<u32> = (1..=512).collect();
        let expected: Vec<u32> = from
            .iter()
            .map(|&start| {
                let (mut n, mut steps) = (start, 0);
                while n != 1 && steps < 1000 {
                    n = if n & 1 == 1 { n.wrapping_mul(3).wrapping_add(1) } else { n / 2 };
                    steps += 1;
                }
                steps
            })
            .collect();
        assert_eq!(mapped(isa, "basic", "collatz", &from), expected);
    }
}

#[test]
fn branches_in_loops_are_those_of_each_lane() {
    for isa in ISAS {
        let from = (0..512).map(|i| (i * 37 % 256) - 100).collect::<Vec<i32>>();
        let expected: Vec<u32> = from
            .iter()
            .map(|&value| {
                let mut sum = 0_i32;
                for i in 0..(value & 15) {
                    if i == 7 && value & 16 != 0 {
                        break;
                    }
                    match (value + i) & 7 {
                        0 => sum += 3,
                        1 => sum ^= value,
                        2 => {
                            sum -= i;
                            continue;
                        }
                        5 => sum = sum.wrapping_mul(5).wrapping_add(1),
                        _ => sum += i * value,
                    }
                    if sum > 100_000 {
                        sum >>= 3;
                    }
                }
                sum as u32
            })
            .collect();
        let from: Vec<u32> = from.into_iter().map(|value| value as u32).collect();
        assert_eq!(mapped(isa, "basic", "branches", &from), expected);
    }
}

#[test]
fn private_arrays_are_each_work_items_own() {
    for isa in ISAS {
        let from = words(1024, &mut Rng::with_seed(1));
        let expected: Vec<u32> = from
            .iter()
            .map(|&seed| {
                let mut seed = seed;
                let mut values = [0_u32; 32];
                for value in &mut values {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    *value = seed >> 8;
                }
                for i in 0..32 {
                    let other = (values[i] & 31) as usize;
                    values.swap(i, other);
                }
                (0..32).fold(0_u32, |result, i| result.wrapping_mul(31).wrapping_add(values[(i * 7) & 31]))
            })
            .collect();
        assert_eq!(mapped(isa, "basic", "private_array", &from), expected);
    }
}

#[test]
fn private_memory_has_flat_addresses() {
    for isa in ISAS {
        let from = words(512, &mut Rng::with_seed(2));
        let expected: Vec<u32> = from
            .iter()
            .map(|&word| {
                let value = |at: u32| word.wrapping_mul(at + 1);
                value(word & 7).wrapping_add(value(7))
            })
            .collect();
        assert_eq!(mapped(isa, "basic", "private_pointer", &from), expected);
    }
}

#[test]
fn every_work_item_of_three_dimensions_runs_once_in_its_place() {
    for isa in ISAS {
        let mut device = Device::new(isa, "basic");
        // Groups of 5 * 4 * 3 work items; those at the ends are smaller.
        let (width, height, depth) = (17, 9, 7);
        let count = (width * height * depth) as usize;
        let to = device.buffer((0..count).map(|_| [0; 4]));
        device.argument(&u32::to_le_bytes(width)).argument(&u32::to_le_bytes(height));
        device.run("places", [width, height, depth], [5, 4, 3]);
        let expected: Vec<u32> = (0..depth)
            .flat_map(|z| {
                (0..height).flat_map(move |y| (0..width).map(move |x| x | y << 8 | z << 16 | 1 << 24))
            })
            .collect();
        assert_eq!(u32s(&mut device, to, count), expected);
    }
}

#[test]
fn a_group_sums_up_with_barriers() {
    for isa in ISAS {
        let from: Vec<f32> = (0..2048).map(|i| (i % 97) as f32).collect();
        let mut device = Device::new(isa, "groups");
        device.buffer(from.iter().map(|value| value.to_le_bytes()));
        let to = device.buffer((0..8).map(|_| [0; 4]));
        device.run("sum", [2048, 1, 1], [256, 1, 1]);
        let expected: Vec<f32> = from.chunks(256).map(|group| group.iter().sum()).collect();
        assert_eq!(f32s(&mut device, to, 8), expected);
    }
}

#[test]
fn a_group_sums_up_step_by_step() {
    for isa in ISAS {
        let from = words(1024, &mut Rng::with_seed(10));
        let running = |group: &[u32]| {
            group
                .iter()
                .scan(0_u32, |sum, &value| {
                    *sum = sum.wrapping_add(value);
                    Some(*sum)
                })
                .collect::<Vec<_>>()
        };
        let expected: Vec<u32> = from.chunks(256).flat_map(running).collect();
        assert_eq!(mapped(isa, "groups", "scan", &from), expected);
    }
}

#[test]
fn atomics_of_group_memory_and_memory_add_up() {
    for isa in ISAS {
        let from = words(4096, &mut Rng::with_seed(11));
        let mut device = Device::new(isa, "groups");
        device.buffer(from.iter().map(|word| word.to_le_bytes()));
        let to = device.buffer((0..16).map(|_| [0; 4]));
        device.run("histogram", [4096, 1, 1], [256, 1, 1]);
        let mut expected = vec![0; 16];
        for word in &from {
            expected[(word & 15) as usize] += 1;
        }
        assert_eq!(u32s(&mut device, to, 16), expected);
    }
}

#[test]
fn atomics_return_what_was_there() {
    for isa in ISAS {
        let from = words(512, &mut Rng::with_seed(12));
        let mut device = Device::new(isa, "groups");
        device.buffer(from.iter().map(|word| word.to_le_bytes()));
        let begin = [5, 7, 100, 0, u32::MAX, 0, 1, 0];
        let to = device.buffer(begin.into_iter().chain((0..512).map(|_| 0)).map(u32::to_le_bytes));
        let wide = device.buffer([1_u64, 0].map(u64::to_le_bytes));
        device.run("atomics", [512, 1, 1], [128, 1, 1]);
        let found = u32s(&mut device, to, 8 + 512);
        let expected = [
            from.iter().fold(5_u32, |sum, &value| sum.wrapping_add(value)),
            from.iter().copied().fold(7, u32::max),
            from.iter().map(|&value| value as i32).fold(100, i32::min) as u32,
            from.iter().fold(0, |bits, &value| bits | value),
            from.iter().fold(u32::MAX, |bits, &value| bits & value),
            from.iter().fold(0, |bits, &value| bits ^ value),
            from.iter().fold(1_u32, |value, _| value.wrapping_mul(3).wrapping_add(1)),
            512,
        ];
        assert_eq!(found[..8], expected);
        assert_eq!(found[8..], (0..512).collect::<Vec<u32>>());
        let sum = from.iter().fold(1_u64, |sum, &value| sum.wrapping_add(u64::from(value) << 20));
        let largest = from.iter().map(|&value| i64::from(value) * -3).fold(0, i64::max);
        let found: Vec<u64> = device.read(wide, 2).into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(found, [sum, largest as u64]);
    }
}

#[test]
fn lanes_see_values_of_others() {
    for isa in ISAS {
        let from = words(64, &mut Rng::with_seed(13));
        let mut device = Device::new(isa, "groups");
        device.buffer(from.iter().map(|word| word.to_le_bytes()));
        let to = device.buffer((0..64 * 8).map(|_| [0; 4]));
        device.run("lanes", [64, 1, 1], [64, 1, 1]);
        let found = u32s(&mut device, to, 64 * 8);
        for lane in 0..64 {
            let pushed = (0..64).rfind(|from| (from * 5 + 1) % 64 == lane).map_or(0, |at| from[at]);
            let expected = [
                from[(lane * 7 + 3) % 64],
                pushed,
                // Lanes of pairs change places.
                from[lane ^ 1],
                // The four of a quad in reverse.
                from[lane ^ 3],
                // The next lane of the row; the first has none.
                if lane % 16 == 0 { 7 } else { from[lane - 1] },
                // The last lane of a row for the next row, in rows 1 and 3.
                if lane / 16 % 2 == 1 { from[lane / 16 * 16 - 1] } else { 7 },
                from[9].wrapping_add(from[0]),
                from[lane].wrapping_add(lane as u32),
            ];
            assert_eq!(found[lane * 8..lane * 8 + 8], expected, "lane {lane}");
        }
    }
}

#[test]
fn matrices_are_multiplied_in_tiles() {
    for isa in ISAS {
        let n = 64;
        let mut random = Rng::with_seed(14);
        let mut matrix = || (0..n * n).map(|_| random.f32() - 0.5).collect::<Vec<_>>();
        let (a, b) = (matrix(), matrix());
        let mut device = Device::new(isa, "groups");
        device.buffer(a.iter().map(|value| value.to_le_bytes()));
        device.buffer(b.iter().map(|value| value.to_le_bytes()));
        let to = device.buffer(a.iter().map(|_| [0; 4]));
        device.argument(&(n as i32).to_le_bytes());
        device.run("sgemm", [n as u32, n as u32, 1], [16, 16, 1]);
        // The same order of the same fused operations gives the same bits.
        let expected: Vec<f32> = (0..n * n)
            .map(|at| (0..n).fold(0.0, |sum, k| a[at / n * n + k].mul_add(b[k * n + at % n], sum)))
            .collect();
        assert_eq!(f32s(&mut device, to, n * n), expected);
    }
}

#[test]
fn a_kernel_that_waits_goes_on_when_memory_changes() {
    for isa in ISAS {
        let mut device = Device::new(isa, "groups");
        let flag = device.buffer([[0; 4]]);
        let to = device.buffer((0..64).map(|_| [0; 4]));
        let launch = device.launch("waits", [64, 1, 1], [64, 1, 1]);
        let mut run = Run::new(launch, &mut device.memory).unwrap();
        for _ in 0..5 {
            assert_eq!(run.step(&mut device.memory, 1000), Ok(Step::Waits));
        }
        device.memory.write_u32(flag, 40).unwrap();
        assert_eq!(run.step(&mut device.memory, 100_000), Ok(Step::Done));
        assert_eq!(u32s(&mut device, to, 64), (40..104).collect::<Vec<_>>());
    }
}

#[test]
fn an_address_without_memory_stops_the_kernel_with_its_instruction() {
    for isa in ISAS {
        let mut device = Device::new(isa, "basic");
        device.argument(&0x1234_0000_0000_u64.to_le_bytes());
        device.buffer((0..64).map(|_| [0; 4]));
        let fault = device.try_run("reads_nothing", [64, 1, 1], [64, 1, 1]).unwrap_err();
        assert!(fault.instruction.contains("_load_dword v"), "{fault}");
        assert!(matches!(fault.cause, Cause::Memory(error) if error.address == 0x1234_0000_0000), "{fault}");
    }
}
