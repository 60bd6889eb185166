//! Arithmetic of floats of half, single and double precision.

use fastrand::Rng;
use xsched_gcn3::Isa;

use super::{f32s, mapped};
use crate::clang::ISAS;
use crate::support::Device;

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
