//! Kernels that clang compiled, and the same in Rust.

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

fn mixed_32(x: u32, y: u32) -> u32 {
    let (s, t) = (x as i32, y as i32);
    let mut r = x.wrapping_mul(y).wrapping_add(17);
    r ^= ((u64::from(x) * u64::from(y)) >> 32) as u32;
    r = r.wrapping_add(((i64::from(s) * i64::from(t)) >> 32) as u32);
    r ^= x << (y & 31) | y >> (x & 31);
    r = r.wrapping_add((s >> (t & 31)) as u32);
    r ^= x.count_ones() << 3;
    r = r.wrapping_add(if x != 0 { x.leading_zeros() } else { 77 });
    r ^= if y != 0 { y.trailing_zeros() } else { 55 };
    r = r.wrapping_add(if s < t { x } else { y });
    r ^= (x / (y | 1)).wrapping_add(x % (y | 1));
    r = r.wrapping_add(s.wrapping_div(t | 1) as u32 ^ s.wrapping_rem(t | 1) as u32);
    r ^= (x >> 5 & 0x7f).wrapping_mul(y << 3 >> 11);
    r = r.wrapping_add((x & 0xff_ffff).wrapping_mul(y & 0xff_ffff));
    r ^= x & 0xff00_ff00 | y & !0xff00_ff00;
    r = r.wrapping_add(x.abs_diff(y));
    r = r.rotate_left(7);
    r ^= x.reverse_bits();
    r.wrapping_add(i32::from(x as i8) as u32).wrapping_add(i32::from(y as i16) as u32)
}

#[test]
fn integers_of_32_bits() {
    for isa in ISAS {
        let mut random = Rng::with_seed(3);
        let (a, b) = (words(2048, &mut random), words(2048, &mut random));
        let mut device = Device::new(isa, "integers");
        device.buffer(a.iter().map(|word| word.to_le_bytes()));
        device.buffer(b.iter().map(|word| word.to_le_bytes()));
        let to = device.buffer(a.iter().map(|_| [0; 4]));
        device.run("mix_32", [2048, 1, 1], [256, 1, 1]);
        let expected: Vec<u32> = a.iter().zip(&b).map(|(&x, &y)| mixed_32(x, y)).collect();
        assert_eq!(u32s(&mut device, to, 2048), expected);
    }
}

fn mixed_64(x: u64, y: u64) -> u64 {
    let (s, t) = (x as i64, y as i64);
    let mut r = x.wrapping_mul(y).wrapping_add(99);
    r ^= x << (y & 63) | y >> (x & 63);
    r = r.wrapping_add((s >> (t & 63)) as u64);
    r ^= (x / (y | 1)).wrapping_add(x % (y | 1));
    r = r.wrapping_add((s.wrapping_div(t | 1) as u64).wrapping_sub(s.wrapping_rem(t | 1) as u64));
    r ^= if s < t { x.wrapping_sub(y) } else { x.wrapping_add(y) };
    let zeros = if x != 0 { u64::from(x.leading_zeros()) } else { 1 };
    let trailing = if y != 0 { u64::from(y.trailing_zeros()) } else { 2 };
    r = r.wrapping_add(u64::from(x.count_ones()) + zeros + trailing);
    match x.cmp(&y) {
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => r,
        std::cmp::Ordering::Less => !r,
    }
}

#[test]
fn integers_of_64_bits() {
    for isa in ISAS {
        let mut random = Rng::with_seed(4);
        let mut longs = || -> Vec<u64> {
            let (low, high) = (words(1024, &mut random), words(1024, &mut random));
            low.into_iter().zip(high).map(|(low, high)| u64::from(low) | u64::from(high) << 32).collect()
        };
        let (a, b) = (longs(), longs());
        let mut device = Device::new(isa, "integers");
        device.buffer(a.iter().map(|word| word.to_le_bytes()));
        device.buffer(b.iter().map(|word| word.to_le_bytes()));
        let to = device.buffer(a.iter().map(|_| [0; 8]));
        device.run("mix_64", [1024, 1, 1], [256, 1, 1]);
        let got: Vec<u64> = device.read(to, 1024).into_iter().map(u64::from_le_bytes).collect();
        let expected: Vec<u64> = a.iter().zip(&b).map(|(&x, &y)| mixed_64(x, y)).collect();
        assert_eq!(got, expected);
    }
}

fn mixed_16(x: u16, y: u16) -> u16 {
    let (s, t) = (x as i16, y as i16);
    let mut r = x.wrapping_mul(y).wrapping_add(5);
    r ^= x << (y & 15) | y >> (x & 15);
    r = r.wrapping_add((s >> (t & 15)) as u16);
    r ^= if s < t { x } else { y };
    r = r.wrapping_add(if x > y { x - y } else { y });
    r ^= (x & 0xff) * (y >> 8);
    r.wrapping_add(i16::from((x >> 8) as i8) as u16)
}

#[test]
fn integers_of_16_and_8_bits() {
    for isa in ISAS {
        let mut random = Rng::with_seed(5);
        let mut shorts = || {
            words(1024, &mut random).into_iter().map(|word| (word ^ word >> 16) as u16).collect::<Vec<_>>()
        };
        let (a, b) = (shorts(), shorts());
        let mut device = Device::new(isa, "integers");
        device.buffer(a.iter().map(|word| word.to_le_bytes()));
        device.buffer(b.iter().map(|word| word.to_le_bytes()));
        let to = device.buffer(a.iter().map(|_| [0; 2]));
        device.run("mix_16", [1024, 1, 1], [256, 1, 1]);
        let got: Vec<u16> = device.read(to, 1024).into_iter().map(u16::from_le_bytes).collect();
        let expected: Vec<u16> = a.iter().zip(&b).map(|(&x, &y)| mixed_16(x, y)).collect();
        assert_eq!(got, expected);

        let from: Vec<u8> = a.iter().map(|&word| word as u8).collect();
        let mut device = Device::new(isa, "integers");
        device.buffer(from.iter().map(|&byte| [byte]));
        let to = device.buffer(from.iter().map(|_| [0]));
        device.run("bytes", [256, 1, 1], [64, 1, 1]);
        let got: Vec<u8> = device.read(to, 1024).into_iter().map(u8::from_le_bytes).collect();
        let expected: Vec<u8> = (0..1024)
            .map(|at| from[at / 4 * 4 + 3 - at % 4].wrapping_mul(3).wrapping_add(at as u8 % 4))
            .collect();
        assert_eq!(got, expected);
    }
}

/// Floats with zeros, denormals, extremes, infinities and NaNs among them.
fn floats(count: usize, random: &mut Rng) -> Vec<f64> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-40,
        1e38,
        3e38,
        1e-38,
        65504.0,
        1e-7,
    ];
    (0..count)
        .map(|_| match random.u32(..4) {
            0 => special[random.usize(..special.len())],
            1 => f64::from(random.i32(-1000..1000)) / 8.0,
            2 => f64::from(f32::from_bits(random.u32(..))),
            _ => (random.f64() - 0.5) * 100.0,
        })
        .collect()
}

/// The results of sixteen operations for each pair.
fn sixteen_32(isa: Isa, x: f32, y: f32) -> [f32; 16] {
    // Compilers have kernels of gfx9 keep denormals.
    let is_lost = |value: f32| isa == Isa::Gfx8 && value.is_subnormal();
    let flush = |value: f32| if is_lost(value) { 0.0_f32.copysign(value) } else { value };
    // Signs are bits: they change on denormals, too.
    let chosen = if flush(x) < flush(y) { -x } else { y.abs() };
    let (x, y) = (flush(x), flush(y));
    let number = |a: f32, b: f32, is_first: bool| match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() == is_first {
                a
            } else {
                b
            }
        }
        _ if (a < b) == is_first => a,
        _ => b,
    };
    let mut results = [
        x + y,
        x - y,
        x * y,
        x / y,
        x.mul_add(y, 1.5),
        x.sqrt(),
        x.floor(),
        x.ceil(),
        x.trunc(),
        x.round_ties_even(),
        number(x, y, true),
        number(x, y, false),
        x as i32 as f32,
        y as u32 as f32,
        0.0,
        if x.is_nan() { 2.0 } else { 1.0 },
    ]
    .map(flush);
    results[14] = chosen;
    results
}

/// Whether two floats are the same, as bits but for NaNs.
fn same_32(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn single_precision_is_that_of_the_host() {
    for isa in ISAS {
        let mut random = Rng::with_seed(6);
        let (a, b) = (floats(2048, &mut random), floats(2048, &mut random));
        let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
        let (a, b) = (narrow(&a), narrow(&b));
        let mut device = Device::new(isa, "floats");
        device.buffer(a.iter().map(|value| value.to_le_bytes()));
        device.buffer(b.iter().map(|value| value.to_le_bytes()));
        let to = device.buffer((0..2048 * 16).map(|_| [0; 4]));
        device.run("single", [2048, 1, 1], [256, 1, 1]);
        let got = f32s(&mut device, to, 2048 * 16);
        let mut wrong = Vec::new();
        for (index, (&x, &y)) in a.iter().zip(&b).enumerate() {
            let expected = sixteen_32(isa, x, y);
            for (at, &expected) in expected.iter().enumerate() {
                let found = got[index * 16 + at];
                // A division and a root may round differently in the last place, and denormal quotients are flushed.
                let is_close = matches!(at, 3 | 5) && (found.to_bits().abs_diff(expected.to_bits())) <= 1;
                // A conversion of what is out of range, or of a NaN, is not defined.
                let is_undefined = (at == 12 && (x.is_nan() || x.abs() >= 2_147_483_648.0))
                    || (at == 13 && !(-0.99..4_294_967_296.0).contains(&y));
                if !same_32(found, expected) && !is_close && !is_undefined {
                    wrong.push(format!("operation {at} of {x:e} and {y:e}: {found:e}, not {expected:e}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    }
}

fn sixteen_64(x: f64, y: f64) -> [f64; 16] {
    let number = |a: f64, b: f64, is_first: bool| match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() == is_first {
                a
            } else {
                b
            }
        }
        _ if (a < b) == is_first => a,
        _ => b,
    };
    [
        x + y,
        x - y,
        x * y,
        x / y,
        x.mul_add(y, 1.5),
        x.sqrt(),
        x.floor(),
        x.ceil(),
        x.trunc(),
        x.round_ties_even(),
        number(x, y, true),
        number(x, y, false),
        f64::from(x as i32),
        f64::from(y as f32),
        if x < y { -x } else { y.abs() },
        x as i64 as f64,
    ]
}

#[test]
fn double_precision_is_that_of_the_host() {
    for isa in ISAS {
        let mut random = Rng::with_seed(7);
        let wide = |random: &mut Rng| -> Vec<f64> {
            let mut values = floats(1024, random);
            // Exponents that single precision does not have.
            for value in values.iter_mut().step_by(3) {
                *value = f64::from_bits(random.u64(..));
            }
            values
        };
        let (a, b) = (wide(&mut random), wide(&mut random));
        let mut device = Device::new(isa, "floats");
        device.buffer(a.iter().map(|value| value.to_le_bytes()));
        device.buffer(b.iter().map(|value| value.to_le_bytes()));
        let to = device.buffer((0..1024 * 16).map(|_| [0; 8]));
        device.run("twice", [1024, 1, 1], [256, 1, 1]);
        let got: Vec<f64> = device.read(to, 1024 * 16).into_iter().map(f64::from_le_bytes).collect();
        let mut wrong = Vec::new();
        for (index, (&x, &y)) in a.iter().zip(&b).enumerate() {
            for (at, &expected) in sixteen_64(x, y).iter().enumerate() {
                let found = got[index * 16 + at];
                let is_same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                // Denormals of single precision are flushed.
                let is_flushed = at == 13 && found == 0.0 && (y as f32).is_subnormal();
                let is_undefined = (at == 12 && (x.is_nan() || x.abs() >= 2_147_483_648.0))
                    || (at == 15 && (x.is_nan() || x.abs() >= 9_223_372_036_854_775_808.0));
                if !is_same && !is_flushed && !is_undefined {
                    wrong.push(format!("operation {at} of {x:e} and {y:e}: {found:e}, not {expected:e}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    }
}

/// A half's value.
fn of_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 => {
            if fraction == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        _ => (1024.0 + fraction) * 2.0_f64.powi(exponent - 25),
    }
}

/// The half that is nearest to a value, by trying all.
fn nearest_half(value: f64, all: &[(f64, u16)]) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    let above = all.partition_point(|&(half, _)| half < magnitude);
    if above == all.len() {
        // 65,520 is the middle between the largest half and the next one, if there were one.
        return sign | if magnitude < 65520.0 { 0x7bff } else { 0x7c00 };
    }
    let (high, bits) = all[above];
    if above == 0 || high == magnitude {
        return sign | bits;
    }
    let (low, low_bits) = all[above - 1];
    let is_low =
        magnitude - low < high - magnitude || (magnitude - low == high - magnitude && low_bits % 2 == 0);
    sign | if is_low { low_bits } else { bits }
}

#[test]
fn half_precision_is_rounded_once() {
    for isa in ISAS {
        let mut random = Rng::with_seed(8);
        let mut values = || (0..2048).map(|_| random.u16(..)).collect::<Vec<_>>();
        let (a, b) = (values(), values());
        let mut device = Device::new(isa, "floats");
        device.buffer(a.iter().map(|value| value.to_le_bytes()));
        device.buffer(b.iter().map(|value| value.to_le_bytes()));
        let to = device.buffer((0..2048 * 8).map(|_| [0; 2]));
        device.run("halves", [2048, 1, 1], [256, 1, 1]);
        let got: Vec<u16> = device.read(to, 2048 * 8).into_iter().map(u16::from_le_bytes).collect();
        let all: Vec<(f64, u16)> = (0..0x7c00).map(|bits| (of_half(bits), bits)).collect();
        let mut wrong = Vec::new();
        for (index, (&x, &y)) in a.iter().zip(&b).enumerate() {
            let (a, b) = (of_half(x), of_half(y));
            let expected = [
                a + b,
                a - b,
                a * b,
                a / b,
                f64::from(a as f32 * 3.0),
                if a < b { a } else { b },
                // Exact in double precision but for the smallest sums, which are far from a middle.
                a.mul_add(b, 1.5),
                f64::from(a as i32),
            ];
            for (at, &expected) in expected.iter().enumerate() {
                let found = got[index * 8 + at];
                let is_nan = of_half(found).is_nan() && expected.is_nan();
                let nearest = nearest_half(expected, &all);
                // A quotient comes from an approximation.
                let is_close = at == 3 && found.abs_diff(nearest) <= 1;
                let is_undefined = at == 7 && (a.is_nan() || a.abs() >= 2_147_483_648.0);
                if found != nearest && !is_nan && !is_close && !is_undefined {
                    wrong.push(format!("operation {at} of {a:e} and {b:e}: {found:#x}, not {nearest:#x}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    }
}

#[test]
fn approximated_functions_are_within_a_unit_of_the_last_place() {
    for isa in ISAS {
        let mut random = Rng::with_seed(9);
        let from: Vec<f32> = (0..1024).map(|_| (random.f32() * 180.0 - 60.0).abs().max(1e-3)).collect();
        let mut device = Device::new(isa, "floats");
        device.buffer(from.iter().map(|value| value.to_le_bytes()));
        let to = device.buffer((0..1024 * 8).map(|_| [0; 4]));
        device.run("approximated", [1024, 1, 1], [256, 1, 1]);
        let got = f32s(&mut device, to, 1024 * 8);
        for (index, &x) in from.iter().enumerate() {
            let wide = f64::from(x);
            let turn = (wide - wide.floor()) * std::f64::consts::TAU;
            let mut mantissa = wide;
            while mantissa >= 1.0 {
                mantissa /= 2.0;
            }
            while mantissa < 0.5 {
                mantissa *= 2.0;
            }
            let expected = [
                1.0 / wide,
                1.0 / wide.sqrt(),
                wide.exp2(),
                wide.log2(),
                turn.sin(),
                turn.cos(),
                wide - wide.floor(),
                mantissa,
            ];
            for (at, &expected) in expected.iter().enumerate() {
                let found = f64::from(got[index * 8 + at]);
                let unit = f64::from(f32::EPSILON) * expected.abs().max(if at > 3 { 1e-6 } else { 0.0 });
                assert!((found - expected).abs() <= unit, "function {at} of {x}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn floats_have_one_of_ten_classes() {
    for isa in ISAS {
        let of = [
            (0x7fa0_0000_u32, 1 << 0),
            (0x7fc0_0000, 1 << 1),
            (0xff80_0000, 1 << 2),
            (0xbf80_0000, 1 << 3),
            (0x8000_0001, 1 << 4),
            (0x8000_0000, 1 << 5),
            (0, 1 << 6),
            (1, 1 << 7),
            (0x3f80_0000, 1 << 8),
            (0x7f80_0000, 1 << 9),
        ];
        let from: Vec<u32> = (0..256).map(|i| of[i % 10].0).collect();
        let expected: Vec<u32> = (0..256).map(|i| of[i % 10].1).collect();
        assert_eq!(mapped(isa, "floats", "classes", &from), expected);
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

/// What a kernel of two inputs and one output of eight times the size says for a generation.
fn of_pairs(isa: Isa, kernel: &str, a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut device = Device::new(isa, "packed");
    device.buffer(a.iter().map(|word| word.to_le_bytes()));
    device.buffer(b.iter().map(|word| word.to_le_bytes()));
    let to = device.buffer((0..a.len() * 8).map(|_| [0; 4]));
    device.run(kernel, [a.len() as u32, 1, 1], [256, 1, 1]);
    u32s(&mut device, to, a.len() * 8)
}

/// GCN3 has no such instructions: it computes the halves one after the other.
#[test]
fn both_generations_agree_on_pairs_of_halves_and_on_sums_of_three() {
    let mut random = Rng::with_seed(10);
    let (a, b) = (words(2048, &mut random), words(2048, &mut random));
    for kernel in ["integer_pairs", "sums"] {
        assert_eq!(of_pairs(Isa::Gfx9, kernel, &a, &b), of_pairs(Isa::Gfx8, kernel, &a, &b), "{kernel}");
    }
    // Of NaNs, which operand comes first is the compiler's choice.
    let is_nan = |half: u32| half & 0x7fff > 0x7c00;
    let same = |x: u32, y: u32| x & 0xffff == y & 0xffff || (is_nan(x) && is_nan(y));
    let results = [Isa::Gfx9, Isa::Gfx8].map(|isa| of_pairs(isa, "float_pairs", &a, &b));
    for (index, (&x, &y)) in results[0].iter().zip(&results[1]).enumerate() {
        let (first, second) = (a[index / 8], b[index / 8]);
        assert!(
            same(x, y) && same(x >> 16, y >> 16),
            "operation {} of {first:#x} and {second:#x}: {x:#x} and {y:#x}",
            index % 8
        );
    }
}

#[test]
fn both_generations_agree_on_small_elements_of_all_memories() {
    let mut random = Rng::with_seed(11);
    let (a, b) = (words(512, &mut random), words(256, &mut random));
    let of = |isa| {
        let mut device = Device::new(isa, "packed");
        device.buffer(a.iter().map(|word| word.to_le_bytes()));
        device.buffer(b.iter().map(|word| word.to_le_bytes()));
        let to = device.buffer((0..1024).map(|_| [0; 4]));
        let bytes = device.buffer((0..256).map(|_| [0; 4]));
        device.run("small_elements", [1024, 1, 1], [256, 1, 1]);
        (u32s(&mut device, to, 1024), u32s(&mut device, bytes, 256))
    };
    let (ours, theirs) = (of(Isa::Gfx9), of(Isa::Gfx8));
    assert!(ours.0.iter().any(|&word| word != 0));
    assert_eq!(ours, theirs);
}
