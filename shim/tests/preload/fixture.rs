//! Compiling the C programs and running them with and without the shim.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// HIP's functions, in the order of `tests/data/hip-api.tsv`, and the two C++ names of older runtimes.
pub(crate) fn function_names() -> Vec<&'static str> {
    let listed = include_str!("../../../tests/data/hip-api.tsv").lines();
    let listed = listed.map(|line| line.split('\t').nth(2).expect("the third field is the name"));
    listed.chain(CXX_NAMES).collect()
}

const CXX_NAMES: [&str; 2] = [
    "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
    "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
];

/// The library under test, which cargo has put beside this test's own executable.
pub(crate) fn shim() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let shim = test.with_file_name("libxsched_shim.so");
    assert!(shim.exists(), "no library under test at {}", shim.display());
    shim
}

/// A folder for what one test compiles and writes.
pub(crate) struct Workshop(TempDir);

impl Workshop {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("the temporary folder is writable"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles C sources of this folder's `c/` to `output`, and returns its path.
    pub(crate) fn compile(&self, output: &str, sources: &[&str], flags: &[&str]) -> PathBuf {
        let output = self.path(output);
        std::fs::create_dir_all(output.parent().expect("it lies in the workshop"))
            .expect("the workshop is writable");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/c");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-fPIC", "-o"]).arg(&output);
        cc.args(sources.iter().map(|source| folder.join(source)));
        let done = cc.args(flags).current_dir(self.0.path()).output().expect("a C compiler is installed");
        assert!(done.status.success(), "{cc:?}: {}", String::from_utf8_lossy(&done.stderr));
        output
    }

    /// A runtime that says `copy` on every line. `file` is its path in the workshop, `soname` what it calls
    /// itself.
    pub(crate) fn runtime(&self, copy: &str, file: &str, soname: &str) -> PathBuf {
        let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/c/runtime.map");
        self.compile(
            file,
            &["runtime.c"],
            &[
                "-shared",
                &format!("-DCOPY=\"{copy}\""),
                &format!("-Wl,-soname,{soname}"),
                &format!("-Wl,--version-script={}", map.display()),
            ],
        )
    }

    /// The program `client.c`, linked with a runtime called `A`.
    pub(crate) fn client(&self) -> PathBuf {
        let runtime = self.runtime("A", "a/libamdhip64.so.6", "libamdhip64.so.6");
        let (runtime, rpath) = (runtime.display().to_string(), "-Wl,-rpath,$ORIGIN/a");
        self.compile("client", &["client.c"], &[&runtime, rpath, "-ldl", "-lpthread"])
    }
}

/// What came out of a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A run of a program.
pub(crate) struct Run(Command);

impl Run {
    /// Without the shim, and without settings of it that the test itself may have inherited.
    pub(crate) fn alone(program: impl AsRef<Path>) -> Self {
        let mut command = Command::new(program.as_ref());
        for variable in ["LD_PRELOAD", "XSCHED_LOG", "XSCHED_DISABLE", "XSCHED_TEST_PANIC"] {
            command.env_remove(variable);
        }
        Self(command)
    }

    /// With the shim.
    pub(crate) fn preloaded(program: impl AsRef<Path>) -> Self {
        Self::alone(program).env("LD_PRELOAD", shim())
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.0.args(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, variable: &str, value: impl Into<OsString>) -> Self {
        self.0.env(variable, value.into());
        self
    }

    pub(crate) fn finish(mut self) -> Said {
        self.0.output().unwrap_or_else(|error| panic!("{:?}: {error}", self.0)).into()
    }
}

/// Runs a program without the shim and with it, demands that nothing differs, and returns what it said.
pub(crate) fn same_with_and_without(program: impl AsRef<Path>, args: &[&str]) -> Said {
    let alone = Run::alone(&program).args(args).finish();
    let preloaded = Run::preloaded(&program).args(args).finish();
    assert_eq!(preloaded, alone, "with the shim (left) and without");
    alone
}
