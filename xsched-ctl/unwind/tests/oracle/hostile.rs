//! Damaged libraries give an error or a valid table, never a panic, an endless loop or unbounded memory.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use xsched_unwind::{Image, Table};

use crate::elf::{Library, system_libraries};

/// A small library with all kinds of rules.
fn subject() -> PathBuf {
    let found = system_libraries().into_iter().find(|path| path.to_string_lossy().contains("libgcc_s"));
    found.expect("the C compiler brings libgcc_s")
}

fn must_be_sound(table: &Table, seed: u64) {
    let pages = table.pages();
    assert_eq!(pages.last(), Some(&(table.rows().len() as u32)), "seed {seed}");
    for page in pages.windows(2) {
        let rows = &table.rows()[page[0] as usize..page[1] as usize];
        assert_eq!(rows[0].pc_low, 0, "seed {seed}");
        assert!(rows.windows(2).all(|pair| pair[0].pc_low < pair[1].pc_low), "seed {seed}");
    }
    for page in 0..pages.len() as u64 {
        for low in [0, 1, 0x8000, 0xffff] {
            // The last entry is the end of the last page.
            let found = table.row_at((u64::from(table.first_page()) + page) << 16 | low);
            assert_eq!(found.is_some(), page + 1 < pages.len() as u64, "seed {seed}");
        }
    }
}

#[test]
fn random_damage_gives_an_error_or_a_valid_table() {
    let path = subject();
    let sound = fs::read(&path).unwrap();
    let section = Library::read(&path).section(".eh_frame").unwrap();
    let begin = sound.windows(64).position(|window| window == &section.bytes[..64]).unwrap();
    let section = begin..begin + section.bytes.len();
    let (mut tables, mut errors) = (0, 0);
    let first_seed = fastrand::u64(..);
    for seed in (0..1500).map(|round| first_seed.wrapping_add(round)) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = sound.clone();
        let range = match random.u8(0..4) {
            0 => 0..64,                              // file header
            1 => 64..64 + 56 * 10,                   // program headers
            2 => section.clone(),                    // unwind information
            _ => bytes.len() - 64 * 28..bytes.len(), // section headers
        };
        for _ in 0..random.usize(1..8) {
            let at = random.usize(range.clone());
            let any = random.u8(..);
            bytes[at] = *random.choice(&[0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1, any]).unwrap();
        }
        if random.u8(..) < 16 {
            bytes.truncate(random.usize(..bytes.len()));
        }
        match Table::build(&Image::Memory(bytes)) {
            Ok(table) => {
                must_be_sound(&table, seed);
                tables += 1;
            }
            Err(_) => errors += 1,
        }
    }
    println!("{tables} tables, {errors} errors, from seed {first_seed}");
    assert!(tables > 0 && errors > 0);
}

#[test]
fn a_library_cut_off_anywhere_gives_an_error_or_a_valid_table() {
    let path = subject();
    let sound = fs::read(&path).unwrap();
    for length in (0..sound.len()).step_by(1999).chain(0..200) {
        if let Ok(table) = Table::build(&Image::Memory(sound[..length].to_vec())) {
            must_be_sound(&table, length as u64);
        }
    }
}

#[test]
fn without_section_headers_the_table_is_the_same() {
    let is_small = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.len() < 32 << 20);
    for path in system_libraries().into_iter().filter(is_small) {
        let whole = Table::build(&File::open(&path).unwrap().into()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        // e_shoff, then e_shentsize, e_shnum and e_shstrndx.
        bytes[0x28..0x30].fill(0);
        bytes[0x3a..0x40].fill(0);
        let stripped = Table::build(&Image::Memory(bytes)).unwrap();
        assert_eq!(stripped.rows(), whole.rows(), "{}", path.display());
        assert_eq!(stripped.pages(), whole.pages(), "{}", path.display());
    }
}

#[test]
fn a_file_may_shrink_and_grow_during_a_build() {
    let path = subject();
    let sound = fs::read(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("changing");
    fs::write(&copy, &sound).unwrap();
    let image = Image::File(File::open(&copy).unwrap());
    let writer = File::options().write(true).open(&copy).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut length = 0;
            while !is_over.load(Ordering::Relaxed) {
                length = (length + 4099) % sound.len() as u64;
                writer.set_len(length).unwrap();
                writer.set_len(sound.len() as u64).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&writer, &sound, 0).unwrap();
            }
        });
        for round in 0..300 {
            if let Ok(table) = Table::build(&image) {
                must_be_sound(&table, round);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn files_for_other_machines_are_refused() {
    let path = subject();
    let sound = fs::read(&path).unwrap();
    let refused = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        Table::build(&Image::Memory(bytes)).unwrap_err().to_string()
    };
    assert_eq!(refused(0, 0), "not an ELF file");
    assert_eq!(refused(4, 1), "not for x86-64", "32-bit");
    assert_eq!(refused(5, 2), "not for x86-64", "big-endian");
    assert_eq!(refused(18, 183), "not for x86-64", "aarch64");
}
