//! The file itself: what it needs and what it offers.

use std::collections::BTreeSet;

use object::elf::{DT_NEEDED, DT_TEXTREL, DT_VERDEF};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::fixture::{Run, Workshop, function_names, shim};
use crate::headers;

/// Libraries of glibc itself, under the names of all its versions, and the compiler's.
const ALLOWED: [&str; 6] =
    ["libc.so.6", "libdl.so.2", "libpthread.so.0", "libm.so.6", "ld-linux-x86-64.so.2", "libgcc_s.so.1"];

#[test]
fn conda_environment_lacks_every_library_but_glibc_and_libgcc() {
    let file = std::fs::read(shim()).unwrap();
    let elf = ElfFile64::<Endianness>::parse(&*file).unwrap();
    let table = elf.elf_section_table().dynamic_table(elf.endian(), &*file).unwrap();
    let of_tag = |tag| table.iter().filter(move |entry| entry.tag == tag);
    let needed: Vec<_> =
        of_tag(DT_NEEDED).map(|entry| str::from_utf8(table.string(entry).unwrap()).unwrap()).collect();

    assert!(!needed.is_empty(), "a library in Rust needs libc");
    let strangers: Vec<_> = needed.iter().filter(|name| !ALLOWED.contains(name)).collect();
    assert!(strangers.is_empty(), "needs {strangers:?}");
    // A versioned definition would no longer satisfy references to other versions.
    assert_eq!(of_tag(DT_VERDEF).count(), 0, "no symbol versions");
    assert_eq!(of_tag(DT_TEXTREL).count(), 0, "no relocations in code");
}

/// The oldest glibc that a build runs on, as the README says: what the standard library asks for where it is built on a
/// current system.
const OLDEST_GLIBC_MINOR: u32 = 34;

#[test]
fn old_systems_have_the_glibc_that_is_needed() {
    let file = std::fs::read(shim()).unwrap();
    let elf = ElfFile64::<Endianness>::parse(&*file).unwrap();
    let strings = elf.section_by_name(".dynstr").unwrap().data().unwrap();
    let versions = strings.split(|&byte| byte == 0).filter_map(|text| text.strip_prefix(b"GLIBC_2."));
    let minors = versions.map(|version| {
        let minor = version.split(|&byte| byte == b'.').next().unwrap();
        str::from_utf8(minor).unwrap().parse::<u32>().unwrap()
    });
    let newest = minors.max().expect("a library in Rust needs libc");
    assert!(newest <= OLDEST_GLIBC_MINOR, "needs glibc 2.{newest}");
    let stated = format!("glibc 2.{OLDEST_GLIBC_MINOR} or later");
    assert!(include_str!("../../../README.md").contains(&stated), "the README does not say {stated}");
}

#[test]
fn environment_with_old_libraries_first_on_the_path() {
    let workshop = Workshop::new();
    // What a conda environment brings, older than anything that is built against the system's: without symbol versions.
    for name in ["libstdc++.so.6", "libz.so.1", "libzstd.so.1", "libunwind.so.8"] {
        let soname = format!("-Wl,-soname,{name}");
        workshop.compile(&format!("conda/{name}"), &["empty.c"], &["-shared", "-nostdlib", &soname]);
    }
    let path = workshop.path("conda");
    let client = workshop.client();
    let alone = Run::alone(&client).args(["arguments"]).finish();
    let log = workshop.path("log");
    let preloaded =
        Run::preloaded(&client).args(["arguments"]).env("LD_LIBRARY_PATH", &path).env("XSCHED_LOG", &log);
    assert_eq!(preloaded.finish(), alone);
    assert!(std::fs::read_to_string(log).unwrap().contains("kernels, created streams"), "no hook ran");

    // A library in C++ cannot be loaded there.
    let flags = ["-shared", "-Wl,--no-as-needed", "-l:libstdc++.so.6"];
    let other = workshop.compile("other.so", &["needs_libstdcxx.c"], &flags);
    let refused =
        Run::alone(&client).args(["arguments"]).env("LD_LIBRARY_PATH", &path).env("LD_PRELOAD", other);
    let refused = refused.finish();
    assert_ne!(refused.status, Some(0), "{}", refused.stderr);
    assert!(refused.stderr.contains("libstdc++.so.6"), "{}", refused.stderr);
}

/// What others read of the shim.
const STATUS: &str = "xsched_shim_status";

#[test]
fn exports_are_the_list_and_nothing_else() {
    let file = std::fs::read(shim()).unwrap();
    let elf = ElfFile64::<Endianness>::parse(&*file).unwrap();
    let defined = elf.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let exported: BTreeSet<_> = defined
        .map(|symbol| {
            let name = symbol.name().unwrap();
            let kind = if name == STATUS { SymbolKind::Data } else { SymbolKind::Text };
            assert_eq!(symbol.kind(), kind, "{name}");
            name
        })
        .collect();

    let of_xsched = headers::functions();
    let mut expected: BTreeSet<_> = function_names().into_iter().collect();
    expected.extend(of_xsched.iter().map(String::as_str));
    expected.extend([
        "dlsym",
        "xsched_shim_call_count",
        "xsched_arbiter_report",
        "xsched_classify",
        "hipSetSchedulingDomain",
        "hipGetSchedulingDomain",
        "xsched_class_priority",
        "xsched_hint_deadline",
        "xsched_hint_priority",
        "xsched_hint_stream",
        "xsched_added_call",
        "xsched_thread_domain",
        STATUS,
        "rocprofiler_configure",
        "rocprofiler_set_api_table",
    ]);
    let missing: Vec<_> = expected.difference(&exported).collect();
    let strange: Vec<_> = exported.difference(&expected).collect();
    assert!(missing.is_empty() && strange.is_empty(), "missing {missing:?}, strange {strange:?}");
}
