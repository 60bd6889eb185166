//! The client programs of `tests/apps`: genuine HIP and CUDA, compiled by clang, linked against the simulated runtimes.
//!
//! Compiled as vendors compile their libraries, optimised and without frame pointers. Sibling calls are off so that
//! every caller of HIP is on the stack for tests to find.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::step::{self, Step};

pub(super) const CLANG: &str = "clang++-19";
/// The device that the simulator shows by default.
pub(super) const OFFLOAD: [&str; 5] = ["-x", "hip", "--offload-arch=gfx942", "-nogpuinc", "-nogpulib"];
/// The same for the virtual machine's GPU and its ROCm 5.2, which is older than the compiler.
pub(super) const VM_OFFLOAD: [&str; 6] =
    ["-x", "hip", "--offload-arch=gfx803", "-nogpuinc", "-nogpulib", "-mcode-object-version=4"];
/// The same for the GPU of the kernel driver in user space.
pub(super) const KFD_OFFLOAD: [&str; 6] =
    ["-x", "hip", "--offload-arch=gfx900", "-nogpuinc", "-nogpulib", "-mcode-object-version=5"];
const COMPILE: [&str; 8] = [
    "-std=c++20",
    "-O2",
    "-g",
    "-fPIC",
    "-fomit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-Wall",
    "-Wextra",
];
/// Programs run in place; `LD_LIBRARY_PATH` still precedes it.
const RUN_PATH: &str = "-Wl,--enable-new-dtags,-rpath,$ORIGIN:$ORIGIN/../hip-sim/6";

/// The programs and their libraries; the simulated runtime must be there.
pub(super) fn build(root: &Path, target_dir: &Path) -> Result<()> {
    let apps = Apps::new(root, target_dir)?;
    let vector_add = [apps.compile("vector_add/vector_add.hip")?];
    let device_load = [apps.compile("device_load/device_load.hip")?];
    let sched_client = [apps.compile("sched_client/sched_client.hip")?];
    let fast_path = [apps.compile("fast_path/fast_path.hip")?];
    let own_calls = [apps.compile("own_calls/own_calls.hip")?];

    let twins = apps.twins()?;
    apps.two_libraries(&twins)?;
    apps.program("vector_add", &vector_add, &[&apps.runtime, &twins])?;
    apps.program("device_load", &device_load, &[&apps.runtime, &twins])?;
    apps.program("sched_client", &sched_client, &[&apps.runtime, &twins])?;
    apps.shared_device(&twins)?;
    apps.program("fast_path", &fast_path, &[&apps.runtime])?;
    apps.program("own_calls", &own_calls, &[&apps.runtime])?;
    apps.xsched_api(&twins)?;
    apps.two_runtimes(&target_dir.join("hip-sim"), &twins)?;
    for (name, flags) in CODE_OBJECTS {
        let object = [apps.compile_as(name, "vector_add/vector_add.hip", flags)?];
        apps.program(name, &object, &[&apps.runtime, &twins])?;
    }
    apps.module_as("vector_add", "vector_add/vector_add.hip", &[])?;
    apps.module_as("vector_add_compressed", "vector_add/vector_add.hip", &["--offload-compress"])?;
    for (name, flags) in TOOLS {
        let object = [apps.compile_as(name, "table/table_tool.cpp", flags)?];
        apps.library(name, &object, &[])?;
    }
    let register = [apps.compile("table/table_register.cpp")?];
    apps.library("libtable_register.so", &register, &[])?;
    let agents = [apps.compile("hsa/hsa_agents.cpp")?];
    apps.library("libhsa_agents.so", &agents, &[])?;
    let client = [apps.compile("table/table_client.cpp")?];
    apps.program("table_client", &client, &[])?;
    // Linked by the benchmark that wants it.
    apps.compile("large_library/large_step.hip")?;
    apps.origin_chain()?;
    apps.callers(&twins)?;
    let generated_code = [apps.compile("generated_code/generated_code.cpp")?];
    apps.program("generated_code", &generated_code, &[&apps.runtime])?;
    apps.cuda_calls(&target_dir.join("cuda-sim/libcuda.so.1"))?;
    apps.deep_chain()
}

/// One program and its libraries; the simulated runtime must be there.
pub(super) fn build_two_libraries(root: &Path, target_dir: &Path) -> Result<PathBuf> {
    let apps = Apps::new(root, target_dir)?;
    apps.two_libraries(&apps.twins()?)
}

/// An online service and a batch job; the simulated runtime must be there. Returns their folder.
pub(super) fn build_shared_device(root: &Path, target_dir: &Path) -> Result<PathBuf> {
    let apps = Apps::new(root, target_dir)?;
    apps.shared_device(&apps.twins()?)?;
    Ok(apps.folder)
}

/// Libraries with the names of AMD's, in a folder of their own, each with its kind of stack frames.
const ORIGIN_CHAIN: [(&str, u32); 7] = [
    ("libtorch_hip.so", 1),
    ("libhipblas.so", 0),
    ("libhipblaslt.so", 2),
    ("librocblas.so", 3),
    ("libMIOpen.so.1", 2),
    ("librccl.so.1", 1),
    ("libffi.so.8", 0),
];

/// Variants of `vector_add`, with device code in every form that programs contain.
const CODE_OBJECTS: [(&str, &[&str]); 7] = [
    ("vector_add_v4", &["-mcode-object-version=4"]),
    ("vector_add_v5", &["-mcode-object-version=5"]),
    // Clang 19 calls version 6 unfinished, in a warning without a name; the others show the program's own warnings.
    ("vector_add_v6", &["-mcode-object-version=6", "-w"]),
    ("vector_add_compressed", &["--offload-compress"]),
    // Its constructors are compiled to different code.
    ("vector_add_unoptimised", &["-O0"]),
    ("vector_add_compressed_v4", &["--offload-compress", "-mcode-object-version=4"]),
    (
        "vector_add_targets",
        &["--offload-arch=gfx90a:xnack+", "--offload-arch=gfx90a:xnack-", "--offload-arch=gfx1100"],
    ),
];

/// A profiling tool, and two variants that have only one symbol of the protocol.
const TOOLS: [(&str, &[&str]); 3] = [
    ("libtable_tool.so", &[]),
    ("libtable_tool_receiver.so", &["-DWITHOUT_CONFIGURE"]),
    ("libtable_tool_configure.so", &["-DWITHOUT_RECEIVER"]),
];

struct Apps {
    /// `tests/apps`
    sources: PathBuf,
    /// Include folders, and every header in them.
    include: Vec<PathBuf>,
    headers: Vec<PathBuf>,
    /// The runtime to link with; any major would do, since programs load the one with this SONAME.
    runtime: PathBuf,
    folder: PathBuf,
    objects: PathBuf,
}

impl Apps {
    fn new(root: &Path, target_dir: &Path) -> Result<Self> {
        let sources = root.join("tests/apps");
        let include: Vec<_> = [
            "include",
            "vector_add",
            "two_libraries",
            "two_runtimes",
            "deep_chain",
            "callers",
            "sched_client",
            "xsched_api",
            "cuda_calls",
            "../hip-sim/include",
            "../cuda-sim/include",
            "../../shim/include",
        ]
        .into_iter()
        .map(|folder| sources.join(folder))
        .collect();
        let folder = target_dir.join("apps");
        let apps = Self {
            headers: step::headers(&include)?,
            include,
            runtime: target_dir.join("hip-sim/6/libamdhip64.so.6"),
            objects: folder.join("obj"),
            folder,
            sources,
        };
        check_compiler()?;
        Ok(apps)
    }

    /// A step that compiles one source: host code, or with `OFFLOAD` host and device code.
    fn compilation(&self, source: &str, output: PathBuf) -> Step {
        let is_hip = Path::new(source).extension().is_some_and(|e| e == "hip");
        let step = Step::new(CLANG, output).arguments(COMPILE);
        let step = step.include(&self.include);
        let step = if is_hip { step.arguments(OFFLOAD) } else { step };
        step.input(self.sources.join(source)).depends_on(self.headers.iter().cloned())
    }

    fn object(&self, source: &str, extension: &str) -> PathBuf {
        self.objects.join(Path::new(source).with_extension(extension).file_name().unwrap_or_default())
    }

    fn compile(&self, source: &str) -> Result<PathBuf> {
        self.compilation(source, self.object(source, "o")).arguments(["-c"]).run()
    }

    /// Another object of a source, for the program or library of this name.
    fn compile_as(&self, name: &str, source: &str, flags: &[&str]) -> Result<PathBuf> {
        self.compilation(source, self.object(name, "o")).arguments(flags).arguments(["-c"]).run()
    }

    /// The source embeds this file by its name.
    fn compile_embedding(&self, source: &str, embedded: PathBuf) -> Result<PathBuf> {
        let folder = format!("--embed-dir={}", self.objects.display());
        // clang takes `#embed` in C++ as an extension of its own.
        let step =
            self.compilation(source, self.object(source, "o")).arguments(["-c", "-Wno-c23-extensions"]);
        step.arguments([folder]).depends_on([embedded]).run()
    }

    /// Device code alone, as programs load it by `hipModuleLoadData`.
    fn module(&self, source: &str) -> Result<PathBuf> {
        self.compilation(source, self.object(source, "co")).arguments(["--offload-device-only"]).run()
    }

    /// Another module of a source.
    fn module_as(&self, name: &str, source: &str, flags: &[&str]) -> Result<PathBuf> {
        let step = self.compilation(source, self.object(name, "co")).arguments(flags);
        step.arguments(["--offload-device-only"]).run()
    }

    /// The host functions that the simulator runs as kernels.
    fn twins(&self) -> Result<PathBuf> {
        self.library("libdemo_twins.so", &[self.compile("twins/twins.cpp")?], &[])
    }

    /// A program that launches by itself, from a module, and through two libraries.
    fn two_libraries(&self, twins: &PathBuf) -> Result<PathBuf> {
        let kernels = [self.compile("two_libraries/demo_kernels.hip")?];
        let kernels = self.library("libdemo_kernels.so", &kernels, &[&self.runtime])?;
        let blas = [self.compile("two_libraries/demo_blas.cpp")?];
        let blas = self.library("libdemo_blas.so", &blas, &[&kernels, &self.runtime])?;
        let module = self.module("two_libraries/module_step.hip")?;
        let program = [
            self.compile("two_libraries/direct_step.hip")?,
            self.compile_embedding("two_libraries/two_libraries.cpp", module)?,
        ];
        self.program("two_libraries", &program, &[&blas, &self.runtime, twins])
    }

    /// `sched_client` under two names, which distinguish the processes in a timeline.
    fn shared_device(&self, twins: &PathBuf) -> Result<()> {
        let object = [self.compile("sched_client/sched_client.hip")?];
        for name in ["online_service", "batch_job"] {
            self.program(name, &object, &[&self.runtime, twins])?;
        }
        Ok(())
    }

    /// A program that calls XSched's functions. It is run with the shim preloaded: that is not there yet.
    fn xsched_api(&self, twins: &PathBuf) -> Result<()> {
        let object = [self.compile("xsched_api/xsched_api.hip")?];
        let flags = ["-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all"];
        self.link("xsched_api", &object, &[&self.runtime, twins], &flags)?;
        Ok(())
    }

    /// Two plugins, each with its own runtime, and a program without one.
    fn two_runtimes(&self, runtimes: &Path, twins: &PathBuf) -> Result<()> {
        for (letter, factor, major) in [('a', "FACTOR_A", 6), ('b', "FACTOR_B", 7)] {
            let name = format!("libtwo_runtimes_{letter}.so");
            let flags = [format!("-DKERNEL=two_runtimes_step_{letter}"), format!("-DFACTOR={factor}")];
            let object =
                self.compile_as(&name, "two_runtimes/plugin.hip", &flags.each_ref().map(String::as_str))?;
            let runtime = runtimes.join(format!("{major}/libamdhip64.so.{major}"));
            let run_path = format!("-Wl,-rpath,$ORIGIN/../hip-sim/{major}");
            self.link(&name, &[object], &[&runtime], &["-shared", "-Wl,-z,defs", &run_path])?;
        }
        let program = [self.compile("two_runtimes/two_runtimes.cpp")?];
        self.program("two_runtimes", &program, &[twins])?;
        Ok(())
    }

    /// Libraries that call each other in any order.
    fn origin_chain(&self) -> Result<()> {
        for (name, shape) in ORIGIN_CHAIN {
            let shape = format!("-DSHAPE={shape}");
            let object =
                [self.compile_as(&format!("origin_chain_{name}"), "origin_chain/level.cpp", &[&shape])?];
            let soname = format!("-Wl,-soname,{name}");
            self.link(&format!("origin_chain/{name}"), &object, &[], &["-shared", "-Wl,-z,defs", &soname])?;
        }
        Ok(())
    }

    /// A program over libraries with the names of AMD's.
    fn callers(&self, twins: &PathBuf) -> Result<()> {
        let mut libraries = Vec::new();
        for (source, name) in [
            ("callers/rocblas.hip", "librocblas.so.4"),
            ("callers/miopen.hip", "libMIOpen.so.1"),
            ("callers/rccl.hip", "librccl.so.1"),
        ] {
            libraries.push(self.library(name, &[self.compile(source)?], &[&self.runtime])?);
        }
        let speaker = [self.compile("callers/speaker.cpp")?];
        // The shim's functions are not available at link time.
        libraries.push(self.library("libspeaker.so", &speaker, &[&libraries[0], &self.runtime])?);
        // The program opens it at run time.
        self.library("libcallers_bottom.so", &[self.compile("callers/bottom.hip")?], &[&self.runtime])?;
        let program = [self.compile("callers/callers.cpp")?, self.compile("callers/own.hip")?];
        let linked: Vec<_> = libraries.iter().chain([&self.runtime, twins]).collect();
        self.program("callers", &program, &linked)?;
        Ok(())
    }

    /// A program that calls CUDA's driver interface, by itself and through two libraries.
    fn cuda_calls(&self, driver: &PathBuf) -> Result<()> {
        const RUN_PATH: &str = "-Wl,-rpath,$ORIGIN/../cuda-sim";
        let library = |name: &str, source: &str, below: &[&PathBuf]| {
            let soname = format!("-Wl,-soname,{name}");
            self.link(name, &[self.compile(source)?], below, &["-shared", "-Wl,-z,defs", &soname, RUN_PATH])
        };
        let kernels = library("libgpu_kernels.so", "cuda_calls/gpu_kernels.cpp", &[driver])?;
        let blas = library("libgpu_blas.so", "cuda_calls/gpu_blas.cpp", &[&kernels, driver])?;
        let program = [self.compile("cuda_calls/cuda_calls.cpp")?];
        self.link("cuda_calls", &program, &[&blas, driver], &[RUN_PATH])?;
        Ok(())
    }

    /// The chain of seven libraries, the observing library below them, and the plugins.
    fn deep_chain(&self) -> Result<()> {
        let witness = [self.compile_as("deep_observe", "deep_chain/observe.cpp", &["-fexceptions"])?];
        let witness = self.library("libdeep_observe.so", &witness, &[])?;
        let mut below = self.runtime.clone();
        for level in (1..=7).rev() {
            let flag = format!("-DLEVEL={level}");
            let object = [self.compile_as(&format!("deep_{level}"), "deep_chain/level.cpp", &[&flag])?];
            below = self.library(&format!("libdeep_{level}.so"), &object, &[&below, &witness])?;
        }
        for (name, flag) in [("small", "-DFRAME=16"), ("large", "-DFRAME=2000")] {
            let name = format!("deep_plugin_{name}");
            let object = [self.compile_as(&name, "deep_chain/plugin.cpp", &[flag])?];
            self.library(&format!("lib{name}.so"), &object, &[&self.runtime, &witness])?;
        }
        let launches = [self.compile_as("deep_launches", "deep_chain/launches.cpp", &["-fexceptions"])?];
        self.library("libdeep_launches.so", &launches, &[&witness])?;
        let bench = [self.compile_as("deep_bench", "deep_chain/bench.cpp", &[])?];
        self.library("libdeep_bench.so", &bench, &[&self.runtime])?;
        let program = [self.compile("deep_chain/deep_chain.cpp")?];
        self.program("deep_chain", &program, &[&below, &witness])?;
        let large = [self.compile("deep_chain/large.cpp")?];
        let large = self.library("libdeep_large.so", &large, &[&self.runtime, &witness])?;
        let program = [self.compile("deep_chain/large_frames.cpp")?];
        self.program("large_frames", &program, &[&large])?;
        Ok(())
    }

    fn library(&self, name: &str, objects: &[PathBuf], libraries: &[&PathBuf]) -> Result<PathBuf> {
        let soname = format!("-Wl,-soname,{name}");
        self.link(name, objects, libraries, &["-shared", "-Wl,-z,defs", &soname])
    }

    /// Links the twins although nothing refers to them: the simulator looks them up by name.
    fn program(&self, name: &str, objects: &[PathBuf], libraries: &[&PathBuf]) -> Result<PathBuf> {
        self.link(name, objects, libraries, &["-Wl,--no-as-needed"])
    }

    fn link(
        &self,
        name: &str,
        objects: &[PathBuf],
        libraries: &[&PathBuf],
        flags: &[&str],
    ) -> Result<PathBuf> {
        let step = Step::new(CLANG, self.folder.join(name)).arguments(["-fuse-ld=lld-19"]).arguments(flags);
        let step = objects.iter().chain(libraries.iter().copied()).cloned().fold(step, Step::input);
        step.arguments([RUN_PATH]).run()
    }
}

/// Reports a missing compiler before the first step would fail.
fn check_compiler() -> Result<()> {
    let found = Command::new(CLANG).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => bail!("no `{CLANG}`, which compiles the HIP programs of tests/apps: run `cargo xtask setup`"),
    }
}
