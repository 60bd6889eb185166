//! A library with as many symbols as those of PyTorch, which calls for others.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions besides the one that calls. Their names have about a hundred bytes.
pub(crate) const COUNT: u32 = 400_000;

/// Builds the library in a folder.
pub(crate) fn build(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let [caller, others, library] =
        ["caller.c", "others.s", "libmany_symbols.so"].map(|name| folder.join(name));
    // The function is on the stack: no jump.
    fs::write(
        &caller,
        "int call(int (*f)(void)) { int code = f(); __asm__ volatile(\"\"); return code; }\n",
    )?;
    let name = format!("_ZN{}{}\\@Ev", 100, "a_name_as_long_as_those_of_templates_in_cplusplus_".repeat(2));
    let function = format!(".globl {name}\n.type {name}, @function\n{name}: ret\n.size {name}, 1");
    let note = ".section .note.GNU-stack,\"\",@progbits";
    fs::write(&others, format!(".macro one\n{function}\n.endm\n.rept {COUNT}\none\n.endr\n{note}\n"))?;
    let output = Command::new("cc")
        .args(["-O1", "-fPIC", "-shared", "-o"])
        .args([&library, &caller, &others])
        .output()?;
    if !output.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(library)
}
