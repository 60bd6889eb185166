//! The rows of system libraries: our rule must give the same caller as DWARF's.

use std::collections::BTreeMap;
use std::fs::File;

use xsched_abi::unwind::{Registers, Rule, Step, Stop, step};
use xsched_unwind::{Image, Table, vdso};

use crate::elf::{Library, system_libraries};
use crate::straight::{Caller, Straight, each_row};

/// How many of a thousand rows may be inexpressible. Assembly in libcrypto has frame addresses in other registers.
const UNSUPPORTED_PER_MILLE_MAX: usize = 30;

#[test]
fn every_rule_agrees_with_dwarf() {
    let libraries = system_libraries();
    assert!(!libraries.is_empty(), "no C compiler names its libraries");
    for path in libraries {
        let table = Table::build(&File::open(&path).unwrap().into()).unwrap();
        compare(&table, &Library::read(&path));
    }
}

#[test]
fn every_rule_of_the_vdso_agrees_with_dwarf() {
    let image = vdso().unwrap().expect("the kernel maps a vDSO");
    let table = Table::build(&image).unwrap();
    let Image::Memory(bytes) = image else { panic!("the vDSO is no file") };
    compare(&table, &Library::of_memory("[vdso]", bytes));
}

fn compare(table: &Table, library: &Library) {
    let Some(section) = library.section(".eh_frame") else {
        panic!("{}: no .eh_frame", library.path.display())
    };
    let mut rules: BTreeMap<u8, usize> = BTreeMap::new();
    let mut rows = 0;
    // A part of the largest libraries is sufficient, and still more than all of the others.
    let nth = if section.bytes.len() > 4 << 20 { 4 } else { 1 };
    each_row(&section.bytes, section.addresses.start, nth, |row, section, encoding| {
        rows += 1;
        for address in [row.start_address(), row.end_address() - 1] {
            let rsp = 0x7ff0_0000_0000 + address * 16;
            let at = Registers { rip: address, rsp, rbp: rsp + 0x10_0000 };
            // Pointers to higher stack addresses, as in real frames: a walk follows no others.
            let memory =
                |address: u64| rsp + 0x20_0000 + (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) * 8;
            let expected = Straight { row, section, encoding, at, memory }.caller();
            let ours = table.row_at(address).expect("a row");
            *rules.entry(ours.rule).or_default() += 1;
            let agrees = match step(&ours, &at, |address| Some(memory(address))) {
                Step::Caller(caller) | Step::Interrupted(caller) => expected == Caller::Is(caller),
                Step::End => expected == Caller::None,
                Step::Stop(Stop::Unsupported) => true,
                Step::Stop(_) => false,
            };
            assert!(
                agrees,
                "{} at {address:#x}: {row:?} leads to {expected:x?}, {ours:?} does not",
                library.path.display()
            );
        }
    });
    let share = |rule: Rule| rules.get(&(rule as u8)).copied().unwrap_or(0) * 500_000 / rows;
    let all = [Rule::Rsp, Rule::Rbp, Rule::Plt, Rule::RbpDeref, Rule::Signal, Rule::End, Rule::Unsupported];
    let shares: Vec<String> = all.iter().map(|&rule| format!("{rule:?} {}", share(rule))).collect();
    println!("{}: {rows} rows; of a million: {}", library.path.display(), shares.join(", "));
    let unsupported = share(Rule::Unsupported) / 1000;
    assert!(unsupported <= UNSUPPORTED_PER_MILLE_MAX, "{unsupported} of 1000 rows are not supported");
}
