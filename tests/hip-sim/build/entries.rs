//! The Rust part of the generated code: indices by name, names and fallbacks by index, signatures.

use std::fmt::Write as _;

use crate::api_list::{Function, Table};
use crate::exports::Export;
use crate::signature;

/// Source text included by `src/api.rs`.
pub(crate) fn rust(functions: &[Function], exports: &[Export]) -> String {
    let mut text = String::new();
    for (table, constant) in [(Table::Compiler, "COMPILER"), (Table::Runtime, "RUNTIME")] {
        let mut members: Vec<&Function> = functions.iter().filter(|f| f.table == table).collect();
        members.sort_by_key(|f| f.index);
        for (expected, function) in members.iter().enumerate() {
            assert_eq!(function.index, expected, "gap in the {constant} table at `{}`", function.name);
        }
        names(&mut text, constant, &members);
        releases(&mut text, constant, &members);
        fallbacks(&mut text, constant, &members);
    }
    positions(&mut text, functions);
    signatures(&mut text, functions);
    export_names(&mut text, exports);
    text
}

fn names(text: &mut String, constant: &str, members: &[&Function]) {
    let list: Vec<String> = members.iter().map(|f| format!("{:?}", f.name)).collect();
    line(text, "/// Functions of this dispatch table, by index.");
    line(
        text,
        &format!("pub(crate) const {constant}_NAMES: [&str; {}] = [{}];", list.len(), list.join(", ")),
    );
}

/// Releases in HIP's encoding, so that they compare with `version::release`; zero if the list has none.
fn releases(text: &mut String, constant: &str, members: &[&Function]) {
    let encoded =
        |(major, minor): (u32, u32)| format!("{}_{:03}_000", major * 10 + minor / 10, minor % 10 * 100);
    let list: Vec<String> =
        members.iter().map(|f| f.version.map_or_else(|| "0".to_owned(), encoded)).collect();
    line(text, "/// First release of each function of this dispatch table, by index.");
    line(text, &format!("const {constant}_RELEASES: [i32; {}] = [{}];", list.len(), list.join(", ")));
}

/// The initial table entries; `api.rs` replaces those of implemented functions.
fn fallbacks(text: &mut String, constant: &str, members: &[&Function]) {
    let list: Vec<String> = members
        .iter()
        .map(|f| {
            let kind = match f.returns.as_str() {
                "hipError_t" => "error",
                "void" => "nothing",
                pointer if pointer.ends_with('*') => "null",
                // The two other return types, an int and a structure, belong to implemented functions.
                _ => "nothing",
            };
            format!("unsupported::{kind}::<{constant}, {}> as *const ()", f.index)
        })
        .collect();
    line(text, "/// Fallback of every entry: the function is not implemented.");
    line(text, &format!("const {constant}_FALLBACKS: [*const (); {}] = [{}];", list.len(), list.join(", ")));
}

fn positions(text: &mut String, functions: &[Function]) {
    line(text, "/// Table and index of a function, from its name.");
    line(text, "macro_rules! position {");
    for f in functions {
        let table = match f.table {
            Table::Compiler => "COMPILER",
            Table::Runtime => "RUNTIME",
        };
        line(text, &format!("({}) => {{ ({table}, {}) }};", f.name, f.index));
    }
    line(text, "}");
}

/// A macro, so that only the types of implemented functions must exist.
fn signatures(text: &mut String, functions: &[Function]) {
    line(text, "/// Type of a function, from its name.");
    line(text, "macro_rules! signature {");
    for f in functions {
        line(text, &format!("({}) => {{ {} }};", f.name, signature::of(f)));
    }
    line(text, "}");
}

fn export_names(text: &mut String, exports: &[Export]) {
    let list: Vec<String> = exports.iter().map(|e| format!("({:?}, {})", e.symbol, e.since_major)).collect();
    line(
        text,
        "/// Exported symbols in the order of `hip_sim_export_addresses`, with the first major that has them.",
    );
    line(text, &format!("pub(crate) const EXPORTS: [(&str, u32); {}] = [{}];", list.len(), list.join(", ")));
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}
