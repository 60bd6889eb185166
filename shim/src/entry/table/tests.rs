use super::*;

#[test]
fn every_function_in_a_table_has_an_entry_there() {
    for kind in [TableKind::Compiler, TableKind::Runtime] {
        let mut entries: Vec<_> = TABLE.iter().filter_map(|function| kind.entry(function.slot)).collect();
        entries.sort_unstable();
        let all: Vec<_> = (0..KNOWN_ENTRIES[kind as usize]).collect();
        assert_eq!(entries, all, "{kind:?}");
    }
}

#[test]
fn entries_are_replaced_up_to_the_size_and_newer_ones_hooked() {
    let real = |n: usize| ptr::without_provenance_mut::<c_void>(0x10_0000 + n);
    let entries: Vec<_> = (0..KNOWN_ENTRIES[1] + 2).map(|n| AtomicPtr::new(real(n))).collect();
    let copy = RuntimeCopy::at(3);
    let known = KNOWN_ENTRIES[1] - 10;
    replace(copy, TableKind::Runtime, &entries[..known]);
    assert_eq!(entries[known].load(Ordering::Relaxed), real(known), "behind the size");
    replace(copy, TableKind::Runtime, &entries);

    let launch = TABLE.iter().position(|function| function.name == c"hipLaunchKernel").unwrap();
    let Slot::runtime(entry) = TABLE[launch].slot else { panic!("it is in the table") };
    assert_eq!(entries[entry].load(Ordering::Relaxed), Code::Hooked.address(3, launch));
    let newest = entries.last().unwrap().load(Ordering::Relaxed);
    assert_eq!(newest, Code::Hooked.address(3, COUNT + 1));
    assert_eq!(ORIGINALS[3][COUNT + 1].load(Ordering::Relaxed), real(entries.len() - 1));
}

#[test]
fn each_entry_has_code_of_its_own() {
    // mov r11d, imm32
    for (copy, id) in [(0, 0), (0, 1), (3, IDS - 1)] {
        let code = Code::Hooked.address(copy, id).cast::<u8>();
        // SAFETY: sixteen bytes of the shim's own code.
        let code = unsafe { slice::from_raw_parts(code, 6) };
        assert_eq!(code[..2], [0x41, 0xbb]);
        assert_eq!(code[2..], u32::try_from(copy * IDS + id).unwrap().to_le_bytes());
    }
}

#[test]
fn other_tables_are_left_alone() {
    assert_eq!(TableKind::named(c"hip"), Some(TableKind::Runtime));
    assert_eq!(TableKind::named(c"hip_compiler"), Some(TableKind::Compiler));
    assert_eq!(TableKind::named(c"hsa"), None);
}
