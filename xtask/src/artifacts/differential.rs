//! The client of the differential tests: a Rust library with a `main`, linked by clang with its kernels and a runtime.
//!
//! ```text
//! <folder>/differential-{5,6,7}          on the runtime of that HIP major
//! <folder>/differential.co               its kernels again, as the module that it loads
//! <folder>/libdifferential_twins.so      host functions in place of the kernels, for the simulated runtime
//! ```

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::apps::{CLANG, OFFLOAD};
use super::hip_sim::MAJORS;
use super::static_library;
use super::step::Step;

const PACKAGE: &str = "differential-runner";
const COMPILE: [&str; 6] = ["-std=c++20", "-O2", "-g", "-fPIC", "-Wall", "-Wextra"];

/// Brings it up to date; the simulated runtimes must be there.
pub(super) fn build(root: &Path, target_dir: &Path) -> Result<()> {
    let library = static_library::build(root, target_dir, PACKAGE)?;
    let sources = root.join("tests/differential/runner/src");
    let folder = target_dir.join("differential");
    let include = [root.join("tests/apps/include"), root.join("tests/hip-sim/include"), sources.clone()];
    let headers =
        ["apps/include/hip_subset.h", "hip-sim/include/hip_sim.h", "differential/runner/src/kernels.h"]
            .map(|header| root.join("tests").join(header));
    let compile = |source: &str, output: PathBuf| {
        Step::new(CLANG, output)
            .arguments(COMPILE)
            .include(&include)
            .depends_on(headers.iter().cloned())
            .input(sources.join(source))
    };
    // `-x hip` must precede its source.
    let device = |output: &str, argument: &str| {
        let step = Step::new(CLANG, folder.join(output)).arguments(COMPILE).arguments(OFFLOAD);
        step.include(&include)
            .arguments([argument])
            .depends_on(headers.iter().cloned())
            .input(sources.join("kernels.hip"))
            .run()
    };
    let kernels = device("kernels.o", "-c")?;
    device("differential.co", "--offload-device-only")?;
    let twins = compile("twins.cpp", folder.join("libdifferential_twins.so")).arguments(["-shared"]).run()?;
    for major in MAJORS {
        let newer = compile("newer.cpp", folder.join(format!("newer-{major}.o")))
            .arguments([format!("-DHIP_MAJOR={major}"), "-c".to_owned()])
            .run()?;
        Step::new(CLANG, folder.join(format!("differential-{major}")))
            .arguments(["-fuse-ld=lld-19", "-Wl,--no-as-needed"])
            .input(kernels.clone())
            .input(newer)
            .input(library.archive.clone())
            .input(twins.clone())
            .input(target_dir.join(format!("hip-sim/{major}/libamdhip64.so.{major}")))
            .arguments(["-lgcc_s", "-lm"])
            .arguments([format!("-Wl,--enable-new-dtags,-rpath,$ORIGIN:$ORIGIN/../hip-sim/{major}")])
            .run()?;
    }
    Ok(())
}
