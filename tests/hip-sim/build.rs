//! Generates all code that must agree with the list of HIP functions: trampolines, table, signatures and
//! linker inputs.
//!
//! The list is `tests/data/hip-api.tsv`. The output goes to `OUT_DIR`:
//!
//! | file | consumer |
//! | --- | --- |
//! | `trampolines.s` | `src/trampolines.rs`, as `global_asm!` |
//! | `entries.rs` | `src/api.rs`: names, indices, fallbacks, signatures |
//! | `libamdhip64.so.{5,6,7}.map` | the linker, as version script |
//! | `release.{5,6,7}.c` | the linker of each library: a constant with the release that it claims to be |

#[path = "build/api_list.rs"]
mod api_list;
#[path = "build/entries.rs"]
mod entries;
#[path = "build/exports.rs"]
mod exports;
#[path = "build/signature.rs"]
mod signature;
#[path = "build/trampolines.rs"]
mod trampolines;
#[path = "build/version_script.rs"]
mod version_script;

use std::path::{Path, PathBuf};
use std::{env, fs};

use api_list::Table;

/// HIP majors for which a library is linked, each with its own SONAME.
const MAJORS: [u32; 3] = [5, 6, 7];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let list = manifest.join("../data/hip-api.tsv");
    println!("cargo::rerun-if-changed={}", list.display());
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");

    let text = fs::read_to_string(&list).unwrap_or_else(|e| panic!("cannot read {}: {e}", list.display()));
    let functions = api_list::parse(&text);
    let exports = exports::of(&functions);

    let len = |table| functions.iter().filter(|f| f.table == table).count();
    let (compiler_len, runtime_len) = (len(Table::Compiler), len(Table::Runtime));
    write(&out, "trampolines.s", &trampolines::assembly(&exports, compiler_len, runtime_len));
    write(&out, "entries.rs", &entries::rust(&functions, &exports));
    for major in MAJORS {
        let script = version_script::VersionScript::new(&exports, major);
        write(&out, &format!("libamdhip64.so.{major}.map"), &script.to_string());
        write(&out, &format!("release.{major}.c"), &release(&script));
    }
}

/// C source that overrides the weak default in `src/version.rs`, in HIP's encoding: 60500000 for 6.5.0.
fn release(script: &version_script::VersionScript<'_>) -> String {
    let (major, minor) = script.newest();
    format!("const int hip_sim_release = {};\n", major * 10_000_000 + minor * 100_000)
}

fn write(directory: &Path, name: &str, contents: &str) {
    let path = directory.join(name);
    fs::write(&path, contents).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}
