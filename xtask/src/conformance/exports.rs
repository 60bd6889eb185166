//! `conformance --rocm FOLDER --exports`: what the genuine runtime exports, and what of it simulated runtime and shim lack.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    artifacts, command,
    setup::{self, Need},
    subject,
    workspace::{Profile, Workspace},
};

/// What is left out on purpose: how names begin, from which library, and why.
const LEFT_OUT: [(&str, Side, &str); 8] = [
    ("hiprtc", Side::Both, "the compiler, which is a library of its own since ROCm 6"),
    ("__hipGetPCH", Side::Both, "precompiled headers of that compiler"),
    ("__gnu_", Side::Both, "conversions of half precision that C compilers call; no HIP"),
    ("amd_dbgapi_get_", Side::Both, "versions that a debugger asks for; no HIP"),
    ("hipGetCmdName", Side::Both, "no header declares it; a name for AMD's own tools"),
    (
        "hipRegisterTracerCallback",
        Side::Both,
        "how roctracer observes calls; it gets none of the simulated runtime",
    ),
    ("hipHccModuleLaunchKernel", Side::Simulated, "its mangled name is there, which the header declares"),
    ("SurfaceObject", Side::Simulated, "their mangled names are there, which refuse"),
];

/// Functions of the runtime that only observe, so that calls may go past the shim.
const PAST_THE_SHIM: [&str; 2] = ["hipChooseDeviceR0600", "hipGetDeviceProperties"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Simulated,
    Shim,
    Both,
}

/// Compares the runtime of an installed ROCm; an error if anything is missing without a reason.
pub(super) fn run(workspace: &Workspace, rocm: &Path) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild])?;
    let (major, genuine) = runtime(rocm)?;
    let simulated = artifacts::build_runtimes(workspace)?.join(format!("{major}/libamdhip64.so.{major}"));
    subject::build_with_switches(workspace)?;
    let shim = workspace.built(Profile::Debug, "libxsched_shim.so");
    let genuine = exports(&genuine)?;
    let simulated: BTreeSet<_> = exports(&simulated)?;
    // The shim's have no versions: they stand for those of any runtime.
    let shim: BTreeSet<_> = exports(&shim)?.iter().map(|export| name(export).to_owned()).collect();
    let missing_in = |side: Side| {
        let is_there = |export: &str| match side {
            Side::Shim => shim.contains(name(export)),
            Side::Simulated | Side::Both => simulated.contains(export),
        };
        genuine.iter().filter(|export| !is_there(export)).cloned().collect::<Vec<_>>()
    };
    let mut unexplained = Vec::new();
    for (side, title) in [(Side::Simulated, "simulated runtime"), (Side::Shim, "shim")] {
        for export in missing_in(side) {
            let why = reason(side, name(&export));
            println!("{title} lacks {export}: {}", why.unwrap_or("UNEXPLAINED"));
            unexplained.extend(why.is_none().then(|| format!("{title} lacks {export}")));
        }
    }
    println!(
        "{} exports of the genuine runtime {major}, {} of the simulated one",
        genuine.len(),
        simulated.len()
    );
    ensure!(
        unexplained.is_empty(),
        "{} differences without a reason: {}",
        unexplained.len(),
        unexplained.join(", ")
    );
    Ok(())
}

/// The newest runtime of the folder.
fn runtime(rocm: &Path) -> Result<(u32, PathBuf)> {
    let known = [7, 6, 5].map(|major| (major, rocm.join(format!("lib/libamdhip64.so.{major}"))));
    let found = known.into_iter().find(|(_, library)| library.exists());
    found.with_context(|| format!("no libamdhip64 in {}", rocm.join("lib").display()))
}

/// `name@version`, without the names of versions.
fn exports(library: &Path) -> Result<BTreeSet<String>> {
    let mut nm = command::command("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library);
    Ok(parse(&command::output(&mut nm)?))
}

fn parse(symbols: &str) -> BTreeSet<String> {
    let functions = symbols.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (kind, symbol) = (fields.next()?, fields.next()?);
        (kind != "A").then(|| symbol.replace("@@", "@"))
    });
    functions.collect()
}

fn name(export: &str) -> &str {
    export.split('@').next().unwrap_or(export)
}

fn reason(side: Side, name: &str) -> Option<&'static str> {
    if side == Side::Shim && PAST_THE_SHIM.contains(&name) {
        return Some("it orders nothing on a device, and goes past the shim");
    }
    let fits = |(part, of, _): &&(&str, Side, &str)| name.contains(part) && [side, Side::Both].contains(of);
    LEFT_OUT.iter().find(fits).map(|(_, _, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_under_another_version_is_another_one() {
        let symbols =
            "0000000000000000 A hip_4.2\n00000000000a1b2c T hipMalloc@@hip_4.2\n00000000000a1b2d T hipFree\n";
        assert_eq!(parse(symbols), BTreeSet::from(["hipMalloc@hip_4.2".into(), "hipFree".into()]));
        assert_eq!(name("hipMalloc@hip_4.2"), "hipMalloc");
    }

    #[test]
    fn what_is_left_out_of_one_is_not_left_out_of_the_other() {
        assert!(reason(Side::Simulated, "hipCreateSurfaceObject").is_some());
        assert_eq!(reason(Side::Shim, "hipCreateSurfaceObject"), None);
        assert_eq!(reason(Side::Simulated, "hipMalloc"), None);
    }
}
