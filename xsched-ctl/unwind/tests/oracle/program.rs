//! The program of seven libraries, built with a choice of compilers.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::traced::Binding;

/// The libraries, outermost first, with their source files.
const LINKS: [(&str, &str); 7] = [
    ("first", "plain.c"),
    ("second", "realigned.c"),
    ("third", "handled.c"),
    ("fourth", "tail.c"),
    ("fifth", "large.cpp"),
    ("sixth", "plain.c"),
    ("seventh", "last.c"),
];

/// How the program is built.
#[derive(Debug)]
pub(crate) struct Build {
    /// The compilers for C and for C++.
    pub(crate) compilers: [&'static str; 2],
    pub(crate) flags: &'static [&'static str],
    pub(crate) binding: Binding,
}

/// Built like GPU libraries, and bound lazily.
pub(crate) const USUAL: Build = Build {
    compilers: ["cc", "c++"],
    flags: &["-O2", "-fomit-frame-pointer", "-Wl,-z,lazy"],
    binding: Binding::Lazy,
};

impl Build {
    /// Builds the program.
    pub(crate) fn program(&self) -> (TempDir, PathBuf) {
        let folder = tempfile::Builder::new().prefix("xsched-unwind-").tempdir().expect("a temporary folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/chain");
        let [c, cpp] = self.compilers;
        for (index, (this, source)) in LINKS.iter().enumerate() {
            let next = LINKS.get(index + 1).map_or("none", |(next, _)| next);
            let mut command = Command::new(if source.contains(".cpp") { cpp } else { c });
            command.args(["-shared", "-fPIC", &format!("-DTHIS={this}"), &format!("-DNEXT={next}")]);
            command.args(self.flags).arg("-o").arg(folder.path().join(format!("lib{this}.so")));
            run(command.arg(sources.join(source)));
        }
        let program = folder.path().join("main");
        let mut command = Command::new(c);
        command
            .args(self.flags)
            .arg("-o")
            .arg(&program)
            .arg(sources.join("main.c"))
            .arg("-L")
            .arg(folder.path());
        command.args(LINKS.map(|(this, _)| format!("-l{this}")));
        run(command.arg(format!("-Wl,-rpath,{}", folder.path().display())));
        (folder, program)
    }
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}
