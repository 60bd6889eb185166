//! The decoder against LLVM's disassembler: every instruction of the tests' kernels, and random dwords of every format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use xsched_gcn3::{Encoding, Isa, decode};

use crate::clang::{FILES, ISAS, compiled, llvm, output, processor};

/// An instruction as LLVM prints it.
#[derive(Debug, PartialEq, Eq)]
struct Printed {
    mnemonic: String,
    operands: Vec<String>,
}

/// A register or constant without the modifiers around it.
fn bare(operand: &str) -> String {
    let operand = operand.split(' ').next().unwrap_or_default();
    let mut operand = operand.trim_start_matches(['-', '|']).trim_end_matches('|');
    for wrapped in ["sext(", "neg(", "abs("] {
        operand = operand.strip_prefix(wrapped).unwrap_or(operand);
    }
    let operand = operand.trim_matches(['|', ')', '-']);
    // One over two pi, with as many digits as the type has.
    if operand.starts_with("0.159") { "0.159".into() } else { operand.into() }
}

impl Printed {
    fn of(text: &str) -> Self {
        let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
        let operands = operands.trim();
        let operands: Vec<_> =
            if operands.is_empty() { Vec::new() } else { operands.split(", ").map(bare).collect() };
        Self { mnemonic: mnemonic.into(), operands }
    }
}

/// What the decoder says of dwords, in the same form; how many it has used.
fn ours(isa: Isa, words: &[u32]) -> Result<(Printed, usize, Encoding), String> {
    let instruction = decode(isa, words).map_err(|error| error.to_string())?;
    let operands = instruction.operands().iter().map(|operand| bare(operand)).collect();
    let printed = Printed { mnemonic: instruction.mnemonic(), operands };
    Ok((printed, usize::from(instruction.size), instruction.encoding))
}

/// The low 16 bits of a literal.
fn low_half(literal: &str) -> Option<u16> {
    Some(u32::from_str_radix(literal.strip_prefix("0x")?, 16).ok()? as u16)
}

/// Whether two forms agree. What is packed into SIMM16 is not compared.
fn agree(ours: &Printed, theirs: &Printed, encoding: Encoding) -> bool {
    let operands = match encoding {
        Encoding::Sopp => true,
        Encoding::Sopk => ours.operands.iter().all(|operand| theirs.operands.contains(operand)),
        Encoding::Sopc if ours.mnemonic == "s_set_gpr_idx_on" => true,
        _ => {
            ours.operands.len() == theirs.operands.len()
                && ours.operands.iter().zip(&theirs.operands).all(|(ours, theirs)| {
                    // Of a literal of 16 bits LLVM prints no more; a small literal may be decimal.
                    ours == theirs
                        || (theirs.starts_with("0x") && low_half(ours) == low_half(theirs))
                        || (ours.starts_with("0x") && theirs.parse().ok() == low_half(ours))
                })
        }
    };
    // For comparisons with SDWA, LLVM prints the name without a suffix.
    let mnemonic = match encoding {
        Encoding::Vopc if !theirs.mnemonic.ends_with("_sdwa") => ours.mnemonic.trim_end_matches("_sdwa"),
        _ => &ours.mnemonic,
    };
    mnemonic == theirs.mnemonic && operands
}

/// The instructions of a code object: text and dwords.
fn disassembled(isa: Isa, code: &[u8]) -> Vec<(String, Vec<u32>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("code");
    fs::write(&path, code).unwrap();
    let text = output(llvm("llvm-objdump").arg("-d").arg(format!("-{}", processor(isa))).arg(path));
    String::from_utf8(text)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let (text, comment) = line.split_once("//")?;
            let (_, words) = comment.split_once(": ")?;
            let words = words.split('<').next()?.split_whitespace();
            let words = words.map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
            Some((text.trim().to_owned(), words))
        })
        .collect()
}

#[test]
fn every_instruction_of_compiled_kernels_is_decoded_as_llvm_does() {
    for isa in ISAS {
        every_instruction_of_kernels(isa);
    }
}

fn every_instruction_of_kernels(isa: Isa) {
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in FILES {
        for (text, words) in disassembled(isa, &compiled(isa, file)) {
            seen += 1;
            let theirs = Printed::of(&text);
            let decoded = ours(isa, &words);
            let is_right = decoded
                .as_ref()
                .is_ok_and(|(ours, size, encoding)| *size == words.len() && agree(ours, &theirs, *encoding));
            if !is_right {
                wrong.push(format!("{file}: {text}: {words:08x?} {decoded:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 2000, "{seen} instructions");
}

/// What LLVM makes of pairs of dwords, by the pair.
fn assembled(isa: Isa, pairs: &[[u32; 2]]) -> BTreeMap<[u32; 2], (String, usize)> {
    let mut input = String::new();
    for pair in pairs {
        let bytes: Vec<_> = pair.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
        writeln!(input, "[{}]", bytes.join(" ")).unwrap();
    }
    let mut command = llvm("llvm-mc");
    command.args(["--disassemble", "-triple=amdgcn", &processor(isa), "-show-encoding"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("cargo xtask setup installs LLVM 19");
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let result = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    // A pair of two short instructions prints two lines; the first is the one that was asked for.
    let mut by_first: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    for line in String::from_utf8(result.stdout).unwrap().lines() {
        let Some((text, encoding)) = line.split_once("; encoding: [") else { continue };
        let bytes = encoding.trim_end_matches(']').split(',');
        let bytes = bytes.map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).unwrap());
        by_first.insert(bytes.collect(), text.trim().to_owned());
    }
    pairs
        .iter()
        .filter_map(|&pair| {
            let bytes: Vec<_> = pair.iter().flat_map(|word| word.to_le_bytes()).collect();
            let found = [4, 8]
                .into_iter()
                .find_map(|size| by_first.get(&bytes[..size]).map(|text| (text.clone(), size / 4)));
            found.map(|found| (pair, found))
        })
        .collect()
}

/// The formats: the bits that identify one, how many bits that are, and which bits of both dwords are not reserved.
const FORMATS: [(u32, u32, [u32; 2]); 13] = [
    (0b10, 2, [u32::MAX; 2]),
    (0b1011, 4, [u32::MAX; 2]),
    (0b1_0111_1101, 9, [u32::MAX; 2]),
    (0b1_0111_1110, 9, [u32::MAX; 2]),
    (0b1_0111_1111, 9, [u32::MAX; 2]),
    (0b11_0000, 6, [0xfc9f_1f7e, 0x7f]),
    (0b0, 1, [u32::MAX; 2]),
    (0b011_1110, 7, [u32::MAX; 2]),
    (0b011_1111, 7, [u32::MAX; 2]),
    (0b11_0100, 6, [0xffff_00ff, 0x03ff_ffff]),
    (0b11_0110, 6, [0xfffe_ffff, 0xffff_ffff]),
    (0b11_0111, 6, [0xffff_0000, 0xff7f_ffff]),
    (0b11_1000, 6, [0xffff_7fff, 0xff1f_ffff]),
];

/// Formats and operations that the decoder refuses by name, and operands that LLVM takes from later generations.
fn is_left_out(text: &str) -> bool {
    let operations = ["image_", "exp ", "tbuffer_", "v_interp", "ds_gws", "ds_ordered"];
    let scalar = ["s_scratch_", "s_atomic_", "s_buffer_atomic_", "s_dcache_discard"];
    let operands = ["src_shared_", "src_private_", "src_pops_", "src_lds_direct", "null", " tfe"];
    operations.iter().chain(&scalar).any(|prefix| text.starts_with(prefix))
        || operands.iter().any(|operand| text.contains(operand))
}

#[test]
fn random_dwords_are_decoded_as_llvm_does() {
    for isa in ISAS {
        random_dwords(isa);
    }
}

/// How the formats differ on gfx9: a segment and a scalar address of FLAT, a longer offset of SMEM, and operations on two halves.
const FORMATS_9: [(u32, u32, [u32; 2]); 5] = [
    (0b11_0000, 6, [0xffff_1f7f, 0x1f_ffff]),
    (0b11_0111, 6, [0xffff_cfff, 0xff7f_ffff]),
    (0b11_0111, 6, [0xffff_8fff, 0xffff_ffff]),
    (0b1_1010_0111, 9, [0xffff_ffff, 0xffff_ffff]),
    (0b11_0100, 6, [0xffff_78ff, 0x03ff_ffff]),
];

fn random_dwords(isa: Isa) {
    let mut random = fastrand::Rng::with_seed(803);
    let more = if isa == Isa::Gfx9 { &FORMATS_9[..] } else { &[] };
    let mut pairs = Vec::new();
    for &(value, bits, used) in FORMATS.iter().chain(more) {
        for round in 0..3000 {
            let mut first = value << (32 - bits) | random.u32(..) >> bits;
            let mut second = random.u32(..);
            if round % 2 == 0 {
                (first, second) = (first & used[0], second & used[1]);
            }
            // Operands that operations do not have are 0.
            if round % 4 == 0 && bits == 6 {
                second &= [0x0000_ffff, 0x00ff_00ff, 0xff00_00ff, 0x0000_00ff][random.usize(..4)];
            }
            // Short vector forms with DPP or SDWA at times.
            if first >> 31 == 0 && round % 4 == 1 {
                first = first & !0x1ff | [249, 250][random.usize(..2)];
                second &= if first & 1 == 1 { 0x0606_06ff } else { 0xff08_1bff };
            }
            pairs.push([first, second]);
        }
    }
    let theirs = assembled(isa, &pairs);
    let (mut seen, mut wrong) = (BTreeMap::new(), Vec::new());
    for (pair, (text, size)) in &theirs {
        // LLVM marks what it cannot check itself.
        if is_left_out(text) || text.contains("/*") {
            continue;
        }
        let theirs = Printed::of(text);
        let decoded = ours(isa, pair);
        match &decoded {
            Ok((ours, ours_size, encoding)) if ours_size == size && agree(ours, &theirs, *encoding) => {
                *seen.entry(format!("{encoding:?}")).or_insert(0) += 1;
            }
            _ => wrong.push(format!("{pair:08x?}: {text} ({size}): {decoded:?}")),
        }
    }
    let shown = wrong.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {}, {seen:?}:\n{shown}", wrong.len(), theirs.len());
    assert_eq!(seen.len(), if isa == Isa::Gfx8 { 13 } else { 14 }, "{seen:?}");
    assert!(seen.values().all(|&count: &i32| count > 50), "{seen:?}");
}
