//! Arithmetic of integers.

use fastrand::Rng;

use super::{u32s, words};
use crate::clang::ISAS;
use crate::support::Device;

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
