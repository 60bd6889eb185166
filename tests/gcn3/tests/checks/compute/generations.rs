//! What only the newer generation has instructions for: both compute the same.

use fastrand::Rng;
use xsched_gcn3::Isa;

use super::{u32s, words};
use crate::support::Device;

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
