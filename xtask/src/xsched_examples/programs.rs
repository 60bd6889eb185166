//! Which examples there are, and their programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{
    artifacts,
    workspace::{Profile, Workspace},
};

/// The simulated runtime that they are linked with, in the folder of runtimes.
pub(super) const RUNTIME: &str = "6/libamdhip64.so.6";

/// An example.
pub(super) struct Example {
    pub(super) number: u8,
    /// What it shows.
    pub(super) shows: &'static str,
    /// In the checkout.
    pub(super) source: &'static str,
    /// Whether it calls XSched's functions, and so is linked with its libraries.
    pub(super) calls: bool,
    pub(super) way: Way,
}

/// How it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Two processes, which say their priorities by variables.
    Variables,
    /// Two processes, with their priorities as arguments.
    Arguments,
    /// One process with two threads. Alone it is without the lines that name this one.
    Threads { other: &'static str, with: With },
}

/// What a process with two threads is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    /// The shim in front of HIP's functions.
    Shim,
    /// A kernel that computes: its results are checked.
    Results,
}

pub(super) const EXAMPLES: [Example; 5] = [
    Example {
        number: 1,
        shows: "two processes, by variables",
        source: "examples/Linux/1_transparent_sched/app.hip",
        calls: false,
        way: Way::Variables,
    },
    Example {
        number: 2,
        shows: "two processes, by hints",
        source: "examples/Linux/2_give_hints/app_with_hints.hip",
        calls: true,
        way: Way::Arguments,
    },
    Example {
        number: 3,
        shows: "two threads, by hints",
        source: "examples/Linux/3_intra_process_sched/app_concurrent.hip",
        calls: true,
        way: Way::Threads { other: "thread_lp", with: With::Shim },
    },
    Example {
        number: 4,
        shows: "two threads, suspend and resume",
        source: "examples/Linux/4_manual_sched/app_sched.hip",
        calls: true,
        way: Way::Threads { other: "thread_hp", with: With::Shim },
    },
    Example {
        number: 8,
        shows: "submitted commands, without a shim",
        source: "examples/Linux/8_nontransparent_sched/app_nontrans_sched.cu",
        calls: true,
        way: Way::Threads { other: "thread_hp", with: With::Results },
    },
];

/// The examples of these numbers; all if there are none.
pub(super) fn named(numbers: &[u8]) -> Result<Vec<&'static Example>> {
    if let Some(unknown) = numbers.iter().find(|number| EXAMPLES.iter().all(|one| one.number != **number)) {
        let known = EXAMPLES.each_ref().map(|example| example.number.to_string()).join(", ");
        bail!("no example {unknown} for HIP; there are: {known}");
    }
    Ok(EXAMPLES.iter().filter(|one| numbers.is_empty() || numbers.contains(&one.number)).collect())
}

/// XSched's names for the shim.
const NAMES: [&str; 4] = ["libpreempt.so", "libhalhip.so", "libshimhip.so", "libxsched.so"];

/// XSched's interface by this scheduler, or by XSched itself.
pub(super) struct Subject {
    /// Headers, and libraries with XSched's names.
    include: PathBuf,
    libraries: PathBuf,
    pub(super) server: Server,
    /// Of its programs.
    folder: PathBuf,
}

/// What decides between processes.
pub(super) enum Server {
    /// `xsched-ctl serve`
    Ours(PathBuf),
    /// `xserver`
    XScheds(PathBuf),
}

impl Subject {
    /// The shim under XSched's names.
    pub(super) fn ours(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.target_dir.join("xsched-examples");
        let libraries = folder.join("lib");
        fs::create_dir_all(&libraries).with_context(|| format!("failed to make {}", libraries.display()))?;
        let shim = workspace.built(Profile::Debug, "libxsched_shim.so");
        for name in NAMES {
            let link = libraries.join(name);
            // It may lead elsewhere.
            let _ = fs::remove_file(&link);
            symlink(&shim, &link).with_context(|| format!("failed to make {}", link.display()))?;
        }
        let server = Server::Ours(workspace.built(Profile::Debug, "xsched-ctl"));
        Ok(Self { include: workspace.root.join("shim/include"), libraries, server, folder })
    }

    /// Where XSched was installed.
    pub(super) fn xscheds(workspace: &Workspace, installed: &Path) -> Self {
        Self {
            include: installed.join("include"),
            libraries: installed.join("lib"),
            server: Server::XScheds(installed.join("bin/xserver")),
            folder: workspace.target_dir.join("xsched-examples/by-xsched"),
        }
    }

    /// What precedes HIP's functions in a process.
    pub(super) fn shim(&self) -> PathBuf {
        self.libraries.join("libshimhip.so")
    }
}

/// What programs are built from.
pub(super) struct Programs<'a> {
    workspace: &'a Workspace,
    checkout: &'a Path,
    pub(super) runtime: PathBuf,
    /// The work of the kernel whose results are checked.
    pub(super) twins: PathBuf,
    /// Of what is translated.
    folder: PathBuf,
}

impl<'a> Programs<'a> {
    pub(super) fn new(workspace: &'a Workspace, checkout: &'a Path, runtime: PathBuf) -> Result<Self> {
        let folder = workspace.target_dir.join("xsched-examples");
        let twins = artifacts::build_xsched_twins(workspace, &folder)?;
        Ok(Self { workspace, checkout, runtime, twins, folder })
    }

    /// Brings the program of an example up to date; returns its path.
    pub(super) fn build(&self, example: &Example, subject: &Subject) -> Result<PathBuf> {
        let source = self.checkout.join(example.source);
        let name = format!("example_{}", example.number);
        if source.extension().is_some_and(|extension| extension == "cu") {
            let source = self.changed(&source, &name, of_hip)?;
            return self.compile(example, subject, &source, &name);
        }
        self.compile(example, subject, &source, &name)
    }

    /// The same without the lines that name a thread.
    pub(super) fn build_without(
        &self,
        example: &Example,
        subject: &Subject,
        thread: &str,
    ) -> Result<PathBuf> {
        let name = format!("example_{}_alone", example.number);
        let source =
            self.changed(&self.checkout.join(example.source), &name, |text| of_hip(&without(text, thread)))?;
        self.compile(example, subject, &source, &name)
    }

    fn compile(&self, example: &Example, subject: &Subject, source: &Path, name: &str) -> Result<PathBuf> {
        let libraries = example.calls.then_some(&*subject.libraries);
        let (include, output) = (&*subject.include, subject.folder.join(name));
        artifacts::build_xsched_example(self.workspace, source, &self.runtime, (include, libraries), output)
    }

    /// Another text of a source.
    fn changed(&self, source: &Path, name: &str, change: impl Fn(&str) -> String) -> Result<PathBuf> {
        let text =
            fs::read_to_string(source).with_context(|| format!("failed to read {}", source.display()))?;
        let (changed, text) = (self.folder.join(name).with_extension("hip"), change(&text));
        // A file that is not written again is not compiled again.
        if fs::read_to_string(&changed).ok().as_deref() != Some(&*text) {
            fs::write(&changed, text).with_context(|| format!("failed to write {}", changed.display()))?;
        }
        Ok(changed)
    }
}

/// The lines that do not have this word.
fn without(text: &str, word: &str) -> String {
    text.lines().filter(|line| !line.contains(word)).flat_map(|line| [line, "\n"]).collect()
}

/// HIP's functions have the names of CUDA's, with another prefix.
fn of_hip(cuda: &str) -> String {
    cuda.replace("cuda_runtime.h", "hip/hip_runtime.h").replace("cuda", "hip").replace("Cuda", "Hip")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_named_by_their_numbers() {
        let numbers = |named: Vec<&Example>| named.iter().map(|example| example.number).collect::<Vec<_>>();
        assert_eq!(numbers(named(&[]).unwrap()), [1, 2, 3, 4, 8]);
        assert_eq!(numbers(named(&[8, 3]).unwrap()), [3, 8]);
        let error = named(&[5]).err().unwrap().to_string();
        assert_eq!(error, "no example 5 for HIP; there are: 1, 2, 3, 4, 8");
    }

    #[test]
    fn a_thread_is_left_out_by_its_name() {
        let both = "std::thread thread_lp(run, 1);\nstd::thread thread_hp(run, 2);\nthread_lp.join();\nthread_hp.join();\n";
        assert_eq!(without(both, "thread_hp"), "std::thread thread_lp(run, 1);\nthread_lp.join();\n");
    }

    #[test]
    fn cuda_is_translated_by_name() {
        let cuda = "#include <cuda_runtime.h>\n#include \"xsched/cuda/hal.h\"\ncudaStreamCreate(&s);\nCudaQueueCreate(&q, s);\n";
        let hip = "#include <hip/hip_runtime.h>\n#include \"xsched/hip/hal.h\"\nhipStreamCreate(&s);\nHipQueueCreate(&q, s);\n";
        assert_eq!(of_hip(cuda), hip);
    }
}
