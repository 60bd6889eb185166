//! XSched's headers as we have them: they compile, and every function of theirs is exported and documented.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::Workshop;

const HEADERS: [&str; 5] =
    ["xsched/types.h", "xsched/xqueue.h", "xsched/hint.h", "xsched/xsched.h", "xsched/hip/hal.h"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

fn text(header: &str) -> String {
    std::fs::read_to_string(folder().join(header)).expect("the header is there")
}

/// The functions that the headers declare.
pub(crate) fn functions() -> BTreeSet<String> {
    let headers: String = HEADERS.map(text).concat();
    let declared = headers.lines().filter_map(|line| line.strip_prefix("XResult "));
    declared.map(|line| line.split('(').next().unwrap_or(line).to_owned()).collect()
}

/// What the table under a heading of the documentation says: names of the first column, and the second one.
fn rows(heading: &str) -> Vec<(String, String)> {
    let page = include_str!("../../../docs/xsched.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).expect("it has this part");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    rows.map(|cells| (cells[1].to_owned(), cells[2].to_owned())).collect()
}

#[test]
fn each_header_compiles_by_itself_and_with_hips_in_c_and_cxx() {
    let workshop = Workshop::new();
    let hip = "typedef struct ihipStream_t *hipStream_t;\n";
    let before = |header: &str| format!("{hip}#include \"{header}\"\n#include \"{header}\"\n");
    let after = |header: &str| format!("#include \"{header}\"\n{hip}");
    for (compiler, extension, standards) in
        [("cc", "c", ["-std=c11", "-std=gnu17"]), ("c++", "cpp", ["-std=c++11", "-std=c++20"])]
    {
        let source = workshop.path(&format!("source.{extension}"));
        for (header, standard) in
            HEADERS.iter().flat_map(|header| standards.map(|standard| (header, standard)))
        {
            for program in [before(header), after(header)] {
                std::fs::write(&source, &program).unwrap();
                let mut compile = Command::new(compiler);
                compile.args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I"]);
                let done = compile.arg(folder()).arg(&source).output().unwrap();
                let said = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.success(), "{compiler} {standard}: {program}{said}");
            }
        }
    }
}

#[test]
fn the_documentation_has_every_function_and_policy_once_with_an_answer() {
    let documented: Vec<_> = rows("Functions").into_iter().map(|(name, _)| name.replace('`', "")).collect();
    let expected: Vec<_> = functions().into_iter().collect();
    let mut sorted = documented.clone();
    sorted.sort();
    assert_eq!(sorted, expected);

    let types = text("xsched/types.h");
    let policies = types.lines().filter_map(|line| line.trim().strip_prefix("kPolicy"));
    let policies: Vec<_> = policies
        .map(|line| format!("`kPolicy{}`", line.split([' ', ',']).next().unwrap()))
        .filter(|name| !["`kPolicyUnknown`", "`kPolicyMax`"].contains(&name.as_str()))
        .collect();
    let documented = rows("Policies");
    assert_eq!(documented.len(), policies.len());
    for policy in policies {
        assert_eq!(documented.iter().filter(|(names, _)| names.contains(&policy)).count(), 1, "{policy}");
    }
    for (name, answer) in ["Functions", "Policies", "Variables", "Commands"].into_iter().flat_map(rows) {
        assert!(["same", "better", "refused"].contains(&answer.as_str()), "{name}: {answer}");
    }
}

#[test]
fn the_documentation_and_the_shim_know_the_same_variables_of_xsched() {
    let read = concat!(
        include_str!("../../preload/src/env.rs"),
        include_str!("../../preload/src/hints.rs"),
        include_str!("../../src/explicit/queues.rs")
    );
    for (name, answer) in rows("Variables") {
        let name = name.split('`').nth(1).unwrap().to_owned();
        assert_eq!(read.contains(&format!("\"{name}\"")), answer != "refused", "{name}: {answer}");
    }
}
