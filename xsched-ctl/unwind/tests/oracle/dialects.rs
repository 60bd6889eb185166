//! Libraries with unwind information for debuggers only.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use xsched_abi::unwind::{Row, Rule};
use xsched_unwind::{Error, Table};

const BARE: [&str; 5] = ["-shared", "-fPIC", "-O2", "-nostdlib", "-DTHIS=only"];
const NO_EH_FRAME: [&str; 2] = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];

/// The table of a library with only two functions.
fn table(folder: &Path, flags: &[&str]) -> Result<Table, Error> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/chain/last.c");
    let library = folder.join("library.so");
    let mut command = Command::new("cc");
    let status = command.args(BARE).args(flags).arg("-o").arg(&library).arg(source).status();
    assert!(status.expect("a C compiler is installed").success(), "{command:?}");
    Table::build(&File::open(library).expect("a built library").into())
}

#[test]
fn debug_frame_gives_the_rules_of_eh_frame() {
    let folder = tempfile::tempdir().unwrap();
    let eh_frame = table(folder.path(), &[]);
    let debug_frame = table(folder.path(), &[&NO_EH_FRAME[..], &["-g", "-gz=none"]].concat());
    // The functions may have other addresses, so only their rules are compared.
    let rules = |table: Table| -> Vec<Row> {
        table
            .rows()
            .iter()
            .map(|row| Row { pc_low: 0, ..*row })
            .filter(|row| row.rule() != Rule::Gap)
            .collect()
    };
    let (eh_frame, debug_frame) = (rules(eh_frame.unwrap()), rules(debug_frame.unwrap()));
    assert!(eh_frame.len() > 1);
    assert_eq!(eh_frame, debug_frame);
}

#[test]
fn the_error_for_no_unwind_information_names_the_compiler_flag() {
    let folder = tempfile::tempdir().unwrap();
    let without = table(folder.path(), &NO_EH_FRAME);
    let error = without.unwrap_err();
    assert_eq!(error, Error::NoUnwindInfo);
    assert!(error.to_string().contains("-fno-asynchronous-unwind-tables"));
}
