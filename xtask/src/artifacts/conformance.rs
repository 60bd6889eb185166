//! The conformance suite: its cases are compiled once, by clang against public HIP headers, and linked with each runtime.
//!
//! ```text
//! <folder>/conformance-{5,6,7}                         on the runtime of that HIP major
//! <folder>/conformance-{v4,v6,compressed}              with its kernels in these forms of code objects and bundles
//! <folder>/modules/                                    device code that the cases load by themselves
//! <folder>/libconformance_twins.so                     host functions in place of the kernels, for the simulated runtime
//! <folder>/librocrand_{executor,reference}.so          the same for rocRAND's kernels, and their expected results
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Result;

use super::apps::CLANG;
use super::step::{self, Step};
use crate::clients;
use crate::workspace::Workspace;

const COMPILE: [&str; 8] =
    ["-std=c++20", "-O1", "-g", "-fPIC", "-pthread", "-Wall", "-Wextra", "-D__HIP_PLATFORM_AMD__"];
/// Without the compiler's device headers and device library: the suite uses the compiler's own functions.
const DEVICE: [&str; 4] = ["-x", "hip", "-nogpuinc", "-nogpulib"];

/// Ways to pack the device code of a program, by name; the first is the compiler's default.
const PACKINGS: [(&str, &[&str]); 4] = [
    ("", &[]),
    ("v4", &["-mcode-object-version=4"]),
    // Clang 19 calls version 6 unfinished, in a warning without a name; the others show the suite's own warnings.
    ("v6", &["-mcode-object-version=6", "-w"]),
    ("compressed", &["--offload-compress"]),
];

/// Modules, each with the arguments that make it from `module.hip`.
const MODULES: [(&str, &[&str]); 6] = [
    ("module.co", &["--no-gpu-bundle-output"]),
    ("module.cov4.co", &["--no-gpu-bundle-output", "-mcode-object-version=4"]),
    ("module.cov5.co", &["--no-gpu-bundle-output", "-mcode-object-version=5"]),
    ("module.cov6.co", &["--no-gpu-bundle-output", "-mcode-object-version=6", "-w"]),
    ("module.hipfb", &["--gpu-bundle-output"]),
    ("module.ccob.hipfb", &["--gpu-bundle-output", "--offload-compress"]),
];

/// The inputs and outputs of a build of the suite.
pub(crate) struct Suite {
    /// `tests/conformance`
    sources: PathBuf,
    folder: PathBuf,
    headers: PathBuf,
    runtimes: Vec<Runtime>,
    arch: String,
    has_twins: bool,
    /// rocRAND's headers, for a client; none where clients are not tested.
    rocrand_headers: Option<PathBuf>,
}

/// A runtime to link a program with.
struct Runtime {
    /// Suffix of the program's name.
    name: String,
    library: PathBuf,
    run_path: String,
}

impl Suite {
    /// With Debian's headers, on each simulated runtime.
    pub(crate) fn simulated(workspace: &Workspace) -> Self {
        let runtime = |major: u32| Runtime {
            name: major.to_string(),
            library: workspace.target_dir.join(format!("hip-sim/{major}/libamdhip64.so.{major}")),
            run_path: format!("$ORIGIN/../hip-sim/{major}"),
        };
        Self {
            sources: workspace.root.join("tests/conformance"),
            folder: workspace.target_dir.join("conformance"),
            headers: clients::hip_headers(&workspace.target_dir),
            runtimes: [6, 5, 7].map(runtime).into(),
            arch: "gfx942".to_owned(),
            has_twins: true,
            rocrand_headers: Some(clients::rocrand_headers(&workspace.target_dir)),
        }
    }

    /// With the headers and the runtime of an installed ROCm.
    pub(crate) fn installed(workspace: &Workspace, rocm: &Path, arch: &str) -> Self {
        let runtime = Runtime {
            name: "rocm".to_owned(),
            library: rocm.join("lib/libamdhip64.so"),
            run_path: rocm.join("lib").display().to_string(),
        };
        Self {
            sources: workspace.root.join("tests/conformance"),
            folder: workspace.target_dir.join("conformance-rocm"),
            headers: rocm.join("include"),
            runtimes: vec![runtime],
            arch: arch.to_owned(),
            has_twins: false,
            rocrand_headers: None,
        }
    }

    /// The programs, once they are built: one per runtime, then one per packing on the first runtime.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        let runtimes = self.runtimes.iter().map(|runtime| runtime.name.as_str());
        let packings = PACKINGS.iter().skip(1).map(|(packing, _)| *packing);
        runtimes.chain(packings).map(|name| self.program(name)).collect()
    }

    /// The host functions that the simulated runtime runs as kernels.
    pub(crate) fn twins(&self) -> PathBuf {
        self.folder.join("libconformance_twins.so")
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join(format!("conformance-{name}"))
    }

    /// Brings all of it up to date. Without headers there is no suite; its tests then report that.
    pub(crate) fn build(&self) -> Result<()> {
        if !self.headers.join("hip/hip_runtime.h").exists() {
            eprintln!("going on without the conformance suite: no HIP headers in {}", self.headers.display());
            return Ok(());
        }
        let (host, device) = (self.sources("cpp")?, self.sources("hip")?);
        let mut steps = Vec::new();
        for source in &host {
            steps.push(self.compilation(self.object(source, ""))?.arguments(["-c"]).input(source.clone()));
        }
        for (source, packing) in device.iter().flat_map(|s| PACKINGS.iter().map(move |p| (s, p))) {
            let step = self.device(self.object(source, packing.0))?;
            steps.push(step.arguments(["-c"]).arguments(packing.1).input(source.clone()));
        }
        let module = self.sources.join("modules/module.hip");
        for (name, arguments) in MODULES {
            let step = self.device(self.folder.join("modules").join(name))?;
            steps.push(step.arguments(["--offload-device-only"]).arguments(arguments).input(module.clone()));
        }
        if self.has_twins {
            let step = self.compilation(self.twins())?;
            let sources = ["twins.cpp", "clients/hip_python/twins.cpp"].map(|name| self.sources.join(name));
            steps.push(sources.into_iter().fold(step.arguments(["-shared"]), Step::input));
        }
        steps.extend(self.rocrand()?);
        run_all(steps)?;

        let objects = |packing| {
            let host = host.iter().map(|source| self.object(source, ""));
            host.chain(device.iter().map(move |source| self.object(source, packing))).collect::<Vec<_>>()
        };
        for runtime in &self.runtimes {
            link(&self.program(&runtime.name), objects(""), runtime)?;
        }
        for (packing, _) in PACKINGS.into_iter().skip(1) {
            link(&self.program(packing), objects(packing), &self.runtimes[0])?;
        }
        Ok(())
    }

    /// The steps for rocRAND's kernels and its own device functions on the host, if its headers are there.
    fn rocrand(&self) -> Result<Vec<Step>> {
        let Some(headers) = self.rocrand_headers.as_ref().filter(|headers| headers.exists()) else {
            return Ok(Vec::new());
        };
        let sources = self.sources.join("clients/rocrand");
        let own_headers = step::files(&sources, &["hpp"])?;
        let step = |name: &str| -> Result<Step> {
            let step = self.compilation(self.folder.join(format!("librocrand_{name}.so")))?;
            let step = step.depends_on(own_headers.clone()).arguments(["-O2", "-shared"]);
            Ok(step.input(sources.join(format!("{name}.cpp"))))
        };
        let reference = step("reference")?.arguments([OsStr::new("-isystem"), headers.as_os_str()]);
        Ok(vec![step("executor")?, reference])
    }

    /// The sources of cases with this extension, in a fixed order.
    fn sources(&self, extension: &str) -> Result<Vec<PathBuf>> {
        step::files(&self.sources.join("src"), &[extension])
    }

    fn object(&self, source: &Path, packing: &str) -> PathBuf {
        let name = source.file_name().unwrap_or_default().to_string_lossy().replace('.', "_");
        self.folder.join("obj").join(format!("{name}{packing}.o"))
    }

    /// A step without its source, which is to be appended.
    fn compilation(&self, output: PathBuf) -> Result<Step> {
        let include = [self.sources.join("include"), self.sources.join("../hip-sim/include")];
        let step = Step::new(CLANG, output).arguments(COMPILE).include(&include);
        let step = step.arguments([OsStr::new("-isystem"), self.headers.as_os_str()]);
        Ok(step.depends_on(step::headers(&include)?))
    }

    /// The same for a source with device code.
    fn device(&self, output: PathBuf) -> Result<Step> {
        let step = self.compilation(output)?;
        Ok(step.arguments(DEVICE).arguments([format!("--offload-arch={}", self.arch)]))
    }
}

fn link(program: &Path, objects: Vec<PathBuf>, runtime: &Runtime) -> Result<()> {
    let step = Step::new(CLANG, program.to_owned()).arguments(["-fuse-ld=lld-19", "-pthread"]);
    let step = objects.into_iter().chain([runtime.library.clone()]).fold(step, Step::input);
    step.arguments([format!("-Wl,--enable-new-dtags,-rpath,{}", runtime.run_path)]).run()?;
    Ok(())
}

/// Runs independent steps, as many at a time as there are processors.
fn run_all(steps: Vec<Step>) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut shares: Vec<Vec<Step>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, step) in steps.into_iter().enumerate() {
        shares[index % workers].push(step);
    }
    thread::scope(|scope| {
        let run = |share: Vec<Step>| share.into_iter().try_for_each(|step| step.run().map(drop));
        let threads: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || run(share))).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("steps report errors and do not panic"))
    })
}
