//! Reads handmade ELF files, whole and damaged.

use std::io::Write;

use super::*;
use crate::tests::{damage, seeded};

/// A library of two segments: code at file offset 0x1000 and address 0x2000, data at 0x2000 and 0x4000; the last
/// half of the data is `.bss`. Both symbol tables have `run` (0x2010, 0x20 bytes); the full one also has `state`.
fn library() -> Vec<u8> {
    const SECTIONS: u64 = 0x3000;
    let mut file = vec![0; 0x3000];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    let header = words(&[
        (4, 0x464c_457f),
        (1, 2),
        (1, 1),
        (1, 1),
        (1, 0),
        (8, 0), // magic, 64-bit, little endian
        (2, 3),
        (2, 62),
        (4, 1),
        (8, 0),
        (8, 64),
        (8, SECTIONS),
        (4, 0), // shared, x86-64
        (2, 64),
        (2, 56),
        (2, 2),
        (2, 64),
        (2, 5),
        (2, 0),
    ]);
    put(0, &header);
    put(64, &words(&[(4, 1), (4, 5), (8, 0x1000), (8, 0x2000), (8, 0), (8, 0x800), (8, 0x800), (8, 0x1000)]));
    put(
        120,
        &words(&[(4, 1), (4, 6), (8, 0x2000), (8, 0x4000), (8, 0), (8, 0x100), (8, 0x200), (8, 0x1000)]),
    );
    let run = words(&[(4, 1), (1, 0x12), (1, 0), (2, 1), (8, 0x2010), (8, 0x20)]);
    let state = words(&[(4, 5), (1, 0x11), (1, 0), (2, 1), (8, 0x4000), (8, 0x200)]);
    put(0x200, &[vec![0; 24], run.clone(), state].concat());
    put(0x300, &[vec![0; 24], run].concat());
    put(0x400, b"\0run\0state\0");
    let section = |kind, offset, size, link| {
        words(&[
            (4, 0),
            (4, kind),
            (8, 0),
            (8, 0),
            (8, offset),
            (8, size),
            (4, link),
            (4, 0),
            (8, 8),
            (8, 24),
        ])
    };
    let sections = [(0, 0, 0, 0), (2, 0x200, 72, 3), (11, 0x300, 48, 3), (3, 0x400, 11, 0), (1, 0, 0, 0)];
    for (kind, offset, size, link) in sections {
        file.extend(section(kind, offset, size, link));
    }
    file
}

fn words(fields: &[(usize, u64)]) -> Vec<u8> {
    fields.iter().flat_map(|&(size, value)| value.to_le_bytes()[..size].to_vec()).collect()
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn addresses_follow_the_load_bias() {
    let elf = Elf::open(file_of(&library())).unwrap();
    let bias = elf.bias(0x7000_2000, 0x1000).unwrap();
    assert_eq!(bias, 0x7000_0000);
    assert!(elf.bias(0x7000_4000, 0x2000).is_none(), "a data mapping gives no bias");
    for (address, covered, file_offset) in [
        (0x1fff, false, None),
        (0x2000, true, Some(0x1000)),
        (0x27ff, true, Some(0x17ff)),
        (0x2800, true, None),
        (0x3000, false, None),
        (0x40ff, true, Some(0x20ff)),
        (0x4100, true, None),
        (0x5000, false, None),
        (u64::MAX, false, None),
    ] {
        assert_eq!(
            (elf.covers(address), elf.file_offset_of(address)),
            (covered, file_offset),
            "{address:#x}"
        );
    }
}

#[test]
fn symbols_of_code_and_data_are_found() {
    let elf = Elf::open(file_of(&library())).unwrap();
    let name = |address| elf.symbols().unwrap().at(address).map(|symbol| symbol.mangled.to_string());
    assert_eq!(name(0x2010).as_deref(), Some("run"));
    assert_eq!(name(0x41ff).as_deref(), Some("state"));
    assert_eq!(name(0x2030), None);
    let offsets = symbol_file_offsets(&file_of(&library()), |_| true);
    assert_eq!(offsets, Ok(vec![("run".to_owned(), 0x1010)]));
}

/// A giant stripped library: the name of a caller in it does not need its device code.
#[test]
fn the_name_of_a_function_does_not_cost_the_reading_of_registered_kernels() {
    let mut bytes = library();
    // The full symbol table becomes a table of strings.
    bytes[0x3000 + 64 + 4] = 3;
    let elf = Elf::open(file_of(&bytes)).unwrap();
    assert_eq!(elf.symbols().unwrap().at(0x2010).unwrap().mangled.to_string(), "run");
    assert!(elf.kernels.get().is_none());
    assert!(elf.registered_kernel(0x4000).is_none() && !elf.is_reading_kernels());
}

#[test]
fn a_file_without_section_headers_has_offsets_but_no_names() {
    let mut bytes = library();
    bytes[40..48].fill(0);
    bytes[60..62].fill(0);
    let elf = Elf::open(file_of(&bytes)).unwrap();
    assert!(elf.covers(0x2000));
    assert_eq!(elf.symbols().unwrap_err(), ElfError::NoSymbols);
    assert_eq!(symbol_file_offsets(&file_of(&bytes), |_| true), Err(ElfError::NoSymbols));
}

#[test]
fn a_table_that_announces_too_much_is_refused_before_memory_is_allocated() {
    let mut bytes = library();
    let size_of_symbols = 0x3000 + 64 + 32;
    bytes[size_of_symbols..size_of_symbols + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let file = file_of(&bytes);
    let refused = Elf::open(file).unwrap().symbols().unwrap_err();
    assert_eq!(refused, ElfError::TooLarge { what: "symbol table", bytes: 1 << 40 });
    bytes[size_of_symbols..size_of_symbols + 8].copy_from_slice(&(1u64 << 20).to_le_bytes());
    let refused = Elf::open(file_of(&bytes)).unwrap().symbols().unwrap_err();
    assert_eq!(refused, ElfError::Corrupt("table outside the file"));
}

/// The time for a file is at most proportional to its size, for any contents: any user may give a file the name of a runtime.
#[test]
fn endless_names_and_repeated_tables_take_bounded_time() {
    const STRINGS: usize = 8 << 20;
    const SYMBOLS: usize = 20_000;
    let mut bytes = library();
    let sections = bytes.split_off(0x3000);
    let (strings, symbols) = (bytes.len(), bytes.len() + STRINGS);
    bytes.extend(std::iter::repeat_n(b'x', STRINGS));
    let run = words(&[(4, 1), (1, 0x12), (1, 0), (2, 1), (8, 0x2010), (8, 0x20)]);
    bytes.extend(run.repeat(SYMBOLS));
    let mut put = |at: usize, value: usize| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(40, symbols + SYMBOLS * run.len());
    let mut sections: Vec<Vec<u8>> = sections.chunks(64).map(<[u8]>::to_vec).collect();
    let set_range = |section: &mut Vec<u8>, offset: usize, size: usize| {
        section[24..32].copy_from_slice(&offset.to_le_bytes());
        section[32..40].copy_from_slice(&size.to_le_bytes());
    };
    set_range(&mut sections[2], symbols, SYMBOLS * run.len());
    set_range(&mut sections[3], strings, STRINGS);
    let more = std::iter::repeat_n(sections[2].clone(), 1_000);
    sections.extend(more);
    bytes[60..62].copy_from_slice(&(sections.len() as u16).to_le_bytes());
    bytes.extend(sections.concat());
    let file = file_of(&bytes);
    let began = std::time::Instant::now();
    assert_eq!(symbol_file_offsets(&file, |_| true), Ok(Vec::new()));
    assert_eq!(variable_address(&file, "run"), Ok(None));
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

#[test]
fn damaged_files_never_panic() {
    let mut rng = seeded();
    let whole = library();
    let mut still_read = 0;
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        // Most of the file is padding, so only the tables are damaged.
        damage(&mut rng, &mut bytes[..0x420]);
        damage(&mut rng, &mut bytes[0x3000..]);
        if rng.u64(..4) == 0 {
            bytes.truncate(rng.u64(..bytes.len() as u64) as usize);
        }
        let _ = symbol_file_offsets(&file_of(&bytes), |_| true);
        let Ok(elf) = Elf::open(file_of(&bytes)) else { continue };
        still_read += 1;
        let bias = elf.bias(0x7000_2000, 0x1000).unwrap_or(rng.u64(..));
        for address in [0, 0x2010, 0x4000, rng.u64(..), 0x7000_2010u64.wrapping_sub(bias)] {
            let _ = (elf.covers(address), elf.file_offset_of(address));
            if let Ok(symbols) = elf.symbols() {
                let _ = symbols.at(address);
            }
        }
    }
    assert!(still_read > 300, "too few of the damaged files could be opened: {still_read}");
}

#[test]
fn noise_is_not_an_elf_file() {
    let mut rng = seeded();
    for _ in 0..500 {
        let mut noise: Vec<u8> = (0..rng.u64(..600)).map(|_| rng.u8(..)).collect();
        let starts_right = rng.u64(..2) == 0 && noise.len() > 8;
        if starts_right {
            noise[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        }
        let read = Elf::open(file_of(&noise));
        assert!(starts_right || read.is_err());
    }
}

/// This program's own, which was built with all its symbols.
#[test]
fn many_symbols_are_read_on_a_thread_and_few_at_once() {
    let few = Elf::open(file_of(&library())).unwrap();
    assert_eq!(few.symbols_soon().unwrap().unwrap().at(0x2010).unwrap().mangled.to_string(), "run");
    let many = Elf::open(File::open(std::env::current_exe().unwrap()).unwrap()).unwrap();
    assert!(many.headers.symbol_bytes() > READ_AT_ONCE_MAX, "{}", many.headers.symbol_bytes());
    assert!(many.symbols_soon().is_none() && are_symbols_being_read());
    let symbols = loop {
        match many.symbols_soon() {
            Some(symbols) => break symbols.unwrap(),
            None => thread::yield_now(),
        }
    };
    assert!(are_symbols_being_read(), "a caller that asked before asks again");
    let own = many_symbols_are_read_on_a_thread_and_few_at_once as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bias = maps.lines().find_map(|line| {
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        (hex(start)..hex(end)).contains(&own).then(|| many.bias(hex(start), hex(offset)))?
    });
    let name = symbols.at(own - bias.unwrap()).unwrap().demangled;
    assert!(name.contains("many_symbols_are_read_on_a_thread"), "{name}");
}
