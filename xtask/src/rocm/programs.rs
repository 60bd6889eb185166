//! The programs, each with the library that it is about.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::root::{LIBRARIES, Root};
use crate::{command, venv, workspace::Workspace};

/// A release of ROCm in the root file system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    Six,
    Seven,
}

impl Release {
    pub(super) fn major(self) -> u32 {
        match self {
            Self::Six => 6,
            Self::Seven => 7,
        }
    }

    /// A processor for which its libraries have code.
    pub(super) fn arch(self) -> &'static str {
        match self {
            Self::Six => "gfx90a:sramecc+:xnack-",
            Self::Seven => "gfx942",
        }
    }

    /// Folder of its libraries in the root file system.
    pub(super) fn libraries(self) -> String {
        match self {
            Self::Six => format!("/{LIBRARIES}"),
            Self::Seven => format!("/opt/rocm7/{LIBRARIES}"),
        }
    }
}

/// A program that calls a genuine library.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// In `tests/rocm`, without `.cpp`; empty for a program of Debian.
    pub(super) source: &'static str,
    /// Not there if the archive did not serve it.
    library: &'static str,
    pub(super) release: Release,
}

impl Program {
    /// First the two on which other schedulers failed.
    pub(super) const ALL: [Self; 11] = [
        Self::six("hipblas", "libhipblas.so.2"),
        Self::six("miopen", "libMIOpen.so.1"),
        Self::six("rocblas", "librocblas.so.4"),
        Self::six("hipblaslt", "libhipblaslt.so.1"),
        Self::six("rocfft", "librocfft.so.0"),
        Self::six("rocrand", "librocrand.so.1"),
        Self::six("rocsparse", "librocsparse.so.1"),
        Self::six("migraphx", "libmigraphx_c.so.3"),
        Self {
            name: "llama-bench",
            source: "",
            library: "ggml/backends0/libggml-hip.so",
            release: Release::Six,
        },
        Self { name: "rocblas-7", source: "rocblas", library: "librocblas.so.5", release: Release::Seven },
        Self { name: "rocrand-7", source: "rocrand", library: "librocrand.so.1", release: Release::Seven },
    ];

    const fn six(name: &'static str, library: &'static str) -> Self {
        Self { name, source: name, library, release: Release::Six }
    }

    pub(super) fn is_served(&self, root: &Root) -> bool {
        self.library(root).exists()
    }

    fn library(&self, root: &Root) -> PathBuf {
        root.path().join(&self.release.libraries()[1..]).join(self.library)
    }

    /// What its source is compiled to be linked with; none for a program of Debian.
    pub(super) fn links(&self, root: &Root) -> Option<(String, [PathBuf; 2])> {
        let major = self.release.major();
        let runtime = format!("{}/libamdhip64.so.{major}", &self.release.libraries()[1..]);
        let libraries = [self.library(root), root.path().join(runtime)];
        (!self.source.is_empty()).then(|| (self.name.to_owned(), libraries))
    }

    /// Program and arguments.
    pub(super) fn words(&self, target_dir: &Path) -> Vec<String> {
        if self.source.is_empty() {
            let model = model(target_dir).display().to_string();
            return [&["llama-bench", "-m", &model][..], &LLAMA_BENCH]
                .concat()
                .into_iter()
                .map(Into::into)
                .collect();
        }
        vec![target_dir.join("rocm").join(self.name).display().to_string()]
    }

    /// What two runs must have in common of what it printed: all of it, but for llama-bench's last column, which has times.
    pub(super) fn lines(&self, printed: &str) -> Vec<String> {
        let rows = printed.lines().filter(|line| !self.source.is_empty() || line.starts_with('|'));
        let comparable = |line: &str| match line.strip_suffix('|').and_then(|row| row.rsplit_once('|')) {
            Some((row, _)) if self.source.is_empty() => row.to_owned(),
            _ => line.to_owned(),
        };
        rows.map(comparable).collect()
    }
}

/// All layers on the device; a prompt of 64 tokens, then 32 of an answer, forty times.
const LLAMA_BENCH: [&str; 8] = ["-ngl", "99", "-p", "64", "-n", "32", "-r", "40"];

/// The model of llama-bench.
pub(super) fn model(target_dir: &Path) -> PathBuf {
    target_dir.join("rocm/tiny.gguf")
}

/// Writes a small model of random numbers of this type, unless it is there.
pub(crate) fn make_model(workspace: &Workspace, model: &Path, number: &str) -> Result<()> {
    if model.exists() {
        return Ok(());
    }
    let tests = workspace.root.join("tests/rocm");
    let python = venv::setup(&workspace.target_dir.join("rocm/python"), &tests.join("requirements.txt"))?;
    command::run(command::command(python).arg(tests.join("tiny_gguf.py")).arg(model).arg(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm::ways::Way;

    /// Names in backticks of `docs/evidence.md` that are not files or commands.
    fn named(evidence: &str) -> Vec<&str> {
        let quoted = evidence.split('`').skip(1).step_by(2);
        quoted.filter(|name| !name.contains(['/', ' '])).collect()
    }

    #[test]
    fn the_table_of_evidence_names_every_program_and_tests_that_exist() {
        let workspace = Workspace::find().unwrap();
        let evidence = std::fs::read_to_string(workspace.root.join("docs/evidence.md")).unwrap();
        let mut tests = String::new();
        for entry in ignore::Walk::new(workspace.root.join("tests")).map(Result::unwrap) {
            if entry.path().extension().is_some_and(|extension| extension == "rs") {
                tests += &std::fs::read_to_string(entry.path()).unwrap();
            }
        }
        let programs: Vec<_> = Program::ALL.iter().map(|program| program.name).collect();
        let (shown, others): (Vec<_>, Vec<_>) =
            named(&evidence).into_iter().partition(|name| programs.contains(name));
        assert_eq!(shown, programs, "each once, in order");
        for test in others {
            assert!(tests.contains(&format!("fn {test}(")), "no test `{test}`");
        }
        for column in evidence.split("column *").skip(1).filter_map(|rest| rest.split('*').next()) {
            assert!(Way::ALL.iter().any(|way| way.title() == column), "no column `{column}`");
        }
    }

    #[test]
    fn the_times_of_llama_bench_are_not_compared() {
        let llama = Program::ALL.iter().find(|program| program.name == "llama-bench").unwrap();
        let printed = "loaded\n| model | test | t/s |\n| tiny | pp64 | 12.0 ± 0.1 |\n\nbuild: 1\n";
        assert_eq!(llama.lines(printed), ["| model | test ", "| tiny | pp64 "]);
        assert_eq!(Program::ALL[0].lines("a = 0\n| b |\n"), ["a = 0", "| b |"]);
    }
}
