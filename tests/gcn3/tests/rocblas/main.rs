//! The kernels of AMD's rocBLAS that multiply matrices in single precision on gfx803, each by itself: what it computes is compared with
//! the same in Rust. `cargo xtask test --vm rocm6` runs them; elsewhere they are skipped.
//!
//! rocBLAS 4.4 chooses one of 211 for a product. 66 of them are wrong by their own instructions: those that number work groups in blocks
//! of tiles (`WGM4` and `WGM8` in the name). They divide by the size of a block. gfx803 has no scalar instruction for the upper half of
//! a product, so they divide in v0 and v1. These have the work item's place in the tile by then, and are read as such behind the
//! division: all lanes load the same elements. Nothing else is wrong with them: they are right if the same instructions use two
//! registers that the kernel does not have.

#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]
#![expect(clippy::many_single_char_names, reason = "the names are those of linear algebra")]
#![expect(clippy::float_cmp, reason = "sums of whole numbers are exact")]

#[path = "../checks/support.rs"]
mod support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use support::Device;
use xsched_gcn3::{Encoding, Isa, Op, decode};
use xsched_harness::needs;
use xsched_harness::needs::ROCBLAS_KERNELS;

/// The folder with the code objects.
fn folder() -> PathBuf {
    let root = env::var_os("XSCHED_ROCM_6").expect("the need was probed");
    let versions = fs::read_dir(Path::new(&root).join("usr/lib/x86_64-linux-gnu/rocblas")).unwrap();
    versions.map(|version| version.unwrap().path().join("library")).next().unwrap()
}

/// One of the kernels, with what its name says.
struct Kernel {
    name: String,
    /// Rows, columns and inner steps of a tile.
    tile: [u32; 3],
    /// Groups that share a tile's inner steps.
    split: u32,
    /// Work items of a group.
    items: u32,
    /// Columns of tiles in a block; 1 if there are no blocks.
    block: u32,
}

impl Kernel {
    fn named(name: &str) -> Self {
        let numbers = |key: &str| -> Vec<u32> {
            let found = name.split_once(&format!("_{key}")).expect(key).1;
            let end = found.find(|c: char| !c.is_ascii_digit() && !"x_".contains(c)).unwrap_or(found.len());
            found[..end]
                .split(['x', '_'])
                .filter(|part| !part.is_empty())
                .map(|part| part.parse().unwrap())
                .collect()
        };
        let one = |key: &str| numbers(key)[0];
        Self {
            name: name.to_owned(),
            tile: numbers("MT")[..3].try_into().unwrap(),
            split: one("GSU"),
            items: numbers("WG")[..3].iter().product(),
            block: one("WGM"),
        }
    }
}

/// Which of the factors are transposed.
#[derive(Clone, Copy, Debug)]
struct Layout {
    a: bool,
    b: bool,
}

impl Layout {
    fn file(self) -> String {
        let a = if self.a { "Alik" } else { "Ailk" };
        let b = if self.b { "Bjlk" } else { "Bljk" };
        format!("TensileLibrary_Type_SS_Contraction_l_{a}_{b}_Cijk_Dijk_gfx803.co")
    }
}

/// Small, whole and of both signs: sums have the same bits in whatever order they are made.
fn whole(index: u32) -> f32 {
    (index.wrapping_mul(2_654_435_761) >> 28) as f32 - 8.0
}

fn bytes(values: &[f32]) -> impl Iterator<Item = [u8; 4]> {
    values.iter().map(|value| value.to_le_bytes())
}

/// A division is a product with this, of which the lowest 31 bits are dropped.
fn reciprocal(divisor: u32) -> u32 {
    (1 << 31) / divisor + 1
}

/// Where the file has what is at an address.
fn place(file: &object::File<'_>, address: u64) -> usize {
    let segment = file.segments().find_map(|segment| {
        let (from, size) = segment.file_range();
        let within = address.checked_sub(segment.address()).filter(|within| *within < size)?;
        Some(from + within)
    });
    segment.expect("it is loaded") as usize
}

fn word(code: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(code[at..at + 4].try_into().unwrap())
}

fn set_word(code: &mut [u8], at: usize, value: u32) {
    code[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Has a kernel divide in two registers more, in place of v0 and v1. `descriptor` and `entry` are its places in the file.
fn divide_elsewhere(code: &mut [u8], kernel: &Kernel, descriptor: usize, entry: usize) {
    let resources = word(code, descriptor + 48);
    let free = (resources & 63) * 4 + 4;
    set_word(code, descriptor + 48, resources + 1);
    let (mut at, reciprocal) = (entry, reciprocal(kernel.block));
    let mut in_division = false;
    // By the size of a block, then by that of the last one, each with the same five instructions of the vector unit.
    let mut left = 10;
    while left > 0 {
        let words = [0, 4].map(|offset| word(code, at + offset));
        let i = decode(Isa::Gfx8, &words).unwrap();
        in_division |= i.op == Op::SMovB32 && i.literal == reciprocal;
        let is_vector = matches!(i.encoding, Encoding::Vop1 | Encoding::Vop3);
        if in_division && is_vector {
            let moved = |code: u32| if code & 0xfe == 0 { code + free } else { code };
            let [first, second] = words;
            let words = match i.op {
                // Destination in bits 17 to 24.
                Op::VMovB32 => [first & !0x1fe_0000 | moved(first >> 17 & 0xff) << 17, second],
                Op::VReadfirstlaneB32 => [first & !0xff | moved(first & 0xff), second],
                Op::VMulHiU32 | Op::VMulLoU32 => {
                    [first & !0xff | moved(first & 0xff), second & !0xff | moved(second & 0xff)]
                }
                other => panic!("{}: {other:?} in the division", kernel.name),
            };
            set_word(code, at, words[0]);
            set_word(code, at + 4, words[1]);
            left -= 1;
        }
        at += 4 * usize::from(i.size);
    }
}

/// A code object whose kernels divide elsewhere.
fn mended(code: &[u8]) -> Vec<u8> {
    let file = object::File::parse(code).unwrap();
    let mut mended = code.to_vec();
    // Some are in two tables of symbols.
    for symbol in file.symbols() {
        let Some(name) = symbol.name().unwrap().strip_suffix(".kd") else { continue };
        let kernel = Kernel::named(name);
        if kernel.block != 1 {
            let descriptor = place(&file, symbol.address());
            let entry = symbol.address() + u64::from(word(code, descriptor + 16));
            divide_elsewhere(&mut mended, &kernel, descriptor, place(&file, entry));
        }
    }
    mended
}

/// Runs a kernel for one product; returns how many values are right, and how many there are. The product is larger than a block of
/// tiles, and no multiple of a tile.
fn product(code: &[u8], layout: Layout, kernel: &Kernel) -> (usize, usize) {
    let [rows, columns, inner] = kernel.tile;
    let tiles = [2, kernel.block + 1];
    let (m, n, k) =
        (rows + rows / 2 + 1, columns * kernel.block + columns / 2, inner * (kernel.split + 1) + 1);
    let a: Vec<f32> = (0..m * k).map(|index| whole(index + 1)).collect();
    let b: Vec<f32> = (0..k * n).map(|index| whole(index + 7777)).collect();
    let mut c: Vec<f32> = (0..m * n).map(|index| whole(index + 99)).collect();

    let mut device = Device::with_code(Isa::Gfx8, code.to_vec());
    let lead_a = if layout.a { k } else { m };
    let lead_b = if layout.b { n } else { k };
    device.argument(&u64::from(m * k).to_le_bytes());
    device.argument(&u64::from(k * n).to_le_bytes());
    let sum = device.buffer(bytes(&c));
    device.argument(&sum.to_le_bytes());
    device.buffer(bytes(&a));
    device.buffer(bytes(&b));
    // Factors of product and sum.
    device.argument(&1_f32.to_le_bytes()).argument(&1_f32.to_le_bytes());
    for (lead, size) in [(m, m * n), (m, m * n), (lead_a, m * k), (lead_b, k * n)] {
        device.argument(&lead.to_le_bytes()).argument(&size.to_le_bytes());
    }
    // Sizes, no staggering of the inner steps, tiles, and the division by the last block's columns.
    let last = 1;
    let words = [m, n, 1, k, 0, tiles[0], tiles[1], tiles[1] / kernel.block, last, reciprocal(last)];
    for word in words {
        device.argument(&word.to_le_bytes());
    }
    device.run(
        &kernel.name,
        [tiles[0] * kernel.items, tiles[1] * kernel.split, 1],
        [kernel.items as u16, 1, 1],
    );

    let at = |matrix: &[f32], lead: u32, is_transposed: bool, row: u32, column: u32| {
        let (row, column) = if is_transposed { (column, row) } else { (row, column) };
        matrix[(row + column * lead) as usize]
    };
    for column in 0..n {
        for row in 0..m {
            let product: f32 =
                (0..k).map(|i| at(&a, lead_a, layout.a, row, i) * at(&b, lead_b, layout.b, i, column)).sum();
            c[(row + column * m) as usize] += product;
        }
    }
    let found = device.read(sum, c.len()).into_iter().map(f32::from_le_bytes);
    (found.zip(&c).filter(|(found, expected)| found == *expected).count(), c.len())
}

/// A kernel's name, how many values of its product are right, and how many there are.
type Product = (String, usize, usize);

/// What the kernels of a code object compute that `wanted` chooses.
fn products(code: &[u8], layout: Layout, wanted: impl Fn(&Kernel) -> bool) -> Vec<Product> {
    let file = object::File::parse(code).unwrap();
    let names = file.symbols().filter_map(|symbol| symbol.name().ok()?.strip_suffix(".kd"));
    let kernels = names.map(Kernel::named).filter(wanted);
    kernels
        .map(|kernel| {
            let (right, all) = product(code, layout, &kernel);
            (kernel.name, right, all)
        })
        .collect()
}

const LAYOUTS: [Layout; 4] = [
    Layout { a: false, b: false },
    Layout { a: false, b: true },
    Layout { a: true, b: false },
    Layout { a: true, b: true },
];

/// For each layout of rocBLAS's code objects: checks what the kernels compute that `wanted` chooses.
fn check(wanted: fn(&Kernel) -> bool, change: fn(&[u8]) -> Vec<u8>, is_as_expected: fn(&Product) -> bool) {
    for layout in LAYOUTS {
        let code = change(&fs::read(folder().join(layout.file())).unwrap());
        let mut done = products(&code, layout, wanted);
        assert!(done.len() > 10, "{layout:?}: {}", done.len());
        done.retain(|product| !is_as_expected(product));
        assert!(done.is_empty(), "{layout:?}: {done:#?}");
    }
}

#[needs(ROCBLAS_KERNELS)]
fn kernels_that_do_not_divide_multiply_right() {
    check(|kernel| kernel.block == 1, <[u8]>::to_vec, |(_, right, all)| right == all);
}

/// rocBLAS of a later version may have mended them. Then it can multiply with all of its kernels in the virtual machine.
#[needs(ROCBLAS_KERNELS)]
fn kernels_that_divide_multiply_wrong_as_they_are() {
    check(|kernel| kernel.block != 1, <[u8]>::to_vec, |(_, right, all)| right * 10 < *all);
}

#[needs(ROCBLAS_KERNELS)]
fn kernels_that_divide_elsewhere_multiply_right() {
    check(|kernel| kernel.block != 1, mended, |(_, right, all)| right == all);
}

/// The virtual machine's tests use this library: rocBLAS's own, but for the mended kernels.
#[needs(ROCBLAS_KERNELS)]
fn a_library_of_mended_kernels_is_made() {
    let scratch = tempfile::tempdir().unwrap();
    let target =
        env::var_os("XSCHED_MENDED_ROCBLAS").map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let mended_files = LAYOUTS.map(Layout::file);
    fs::create_dir_all(&target).unwrap();
    let library = folder();
    let root = env::var_os("XSCHED_ROCM_6").expect("the need was probed");
    let there = Path::new("/").join(library.strip_prefix(root).unwrap());
    for entry in fs::read_dir(&library).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let to = target.join(&name);
        let _ = fs::remove_file(&to); // of an earlier run
        if mended_files.contains(&name) {
            let code = fs::read(library.join(&name)).unwrap();
            let mended = mended(&code);
            assert_ne!(code, mended, "{name}");
            fs::write(&to, mended).unwrap();
        } else if name.contains("gfx803") || name.contains("fallback.dat") {
            symlink(there.join(&name), &to).unwrap();
        }
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
