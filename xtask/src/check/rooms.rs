//! Which files and crates use each other.
//!
//! The check fails when a circle of files (a strongly connected component, by `imports.rs`) is larger than it may be, and when
//! a crate of this workspace depends on one that is not below it. Asked for by its name, it also prints each circle, arrow by
//! arrow, and the folders that use each other in both directions.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};

use super::{
    Detail,
    imports::{self, Arrows, Scope},
};
use crate::workspace::{Package, Target, Workspace};

/// Up to so many files may use each other in a circle.
const CIRCLE_MAX: usize = 5;

/// What a crate may depend on: crates below it, of its own side or of the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// In the application, by LD_PRELOAD.
    Shim,
    /// In the command, the controller and the kernel.
    Command,
    Shared,
    /// For the development of all.
    Development,
}

/// The crates of this workspace from the top layer to the lowest. Those of one layer know nothing of each other.
const LAYERS: [&[(&str, Side)]; 13] = [
    &[
        ("cuda-sim", Side::Development),
        ("differential-runner", Side::Development),
        ("kfd-sim", Side::Development),
        ("xsched-tests", Side::Development),
        ("xtask", Side::Development),
    ],
    &[
        ("hip-sim", Side::Development),
        ("xsched-differential", Side::Development),
        ("xsched-gcn3", Side::Development),
    ],
    &[("xsched-ctl", Side::Command), ("xsched-cuda", Side::Shim), ("xsched-shim", Side::Shim)],
    &[("xsched-preload", Side::Shim)],
    &[
        ("xsched-controller", Side::Command),
        ("xsched-replay", Side::Command),
        ("xsched-field", Side::Command),
        ("xsched-report", Side::Command),
        ("xsched-tracer", Side::Command),
        ("xsched-xqueue", Side::Shim),
    ],
    &[("xsched-metrics", Side::Command), ("xsched-pods", Side::Command)],
    &[
        ("trace-viewer", Side::Command),
        ("xsched-arbiter", Side::Command),
        ("xsched-chains", Side::Command),
        ("xsched-control-api", Side::Command),
    ],
    &[("xsched-bpf", Side::Command), ("xsched-recording", Side::Command)],
    &[
        ("xsched-perfetto", Side::Command),
        ("xsched-programs", Side::Command),
        ("xsched-symbols", Side::Command),
        ("xsched-terminal", Side::Command),
        ("xsched-unwind", Side::Command),
    ],
    &[("xsched-rules", Side::Shared), ("xsched-sched", Side::Shared)],
    &[("xsched-ebpf", Side::Command)],
    &[("xsched-protocol", Side::Shared), ("xsched-harness", Side::Shared)],
    &[("xsched-harness-macros", Side::Shared)],
];

/// Nothing links to it: applications load it.
const LOADED_ONLY: &str = "xsched-shim";

pub(super) fn check(workspace: &Workspace, detail: Detail) -> Result<()> {
    let mut faults = Vec::new();
    for package in &workspace.packages {
        for scope in [Scope::WithoutTests, Scope::WithTests] {
            faults.extend(check_circles(package, scope, detail)?);
        }
        faults.extend(layer_faults(package));
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(())
}

/// What is wrong with a crate's circles of files. With `Detail::All` it prints them; those of tests only if they are too large.
fn check_circles(package: &Package, scope: Scope, detail: Detail) -> Result<Option<String>> {
    let mut arrows = Arrows::new();
    let mut files = BTreeSet::new();
    let is_test = |target: &Target| target.kind.iter().any(|kind| kind == "test");
    for target in package.targets.iter().filter(|target| scope == Scope::WithTests || !is_test(target)) {
        imports::add_target(&target.src_path, scope, &mut arrows, &mut files)?;
    }
    let arrows = within(package.folder(), arrows);
    let mut circles = circles(&arrows);
    if scope == Scope::WithTests {
        circles.retain(|circle| circle.len() > CIRCLE_MAX);
    }
    if detail == Detail::All && (scope == Scope::WithoutTests || !circles.is_empty()) {
        let tests = if scope == Scope::WithTests { " with tests" } else { "" };
        println!("{}{tests}: {} files, {} arrows", package.name, files.len(), arrows.len());
        print!("{}", describe(&arrows, &circles));
    }
    let sizes: Vec<_> = circles.iter().map(Vec::len).collect();
    Ok(circle_fault(&package.name, &sizes))
}

/// The arrows with paths from a package's folder.
fn within(folder: &Path, arrows: Arrows) -> Arrows {
    let short = |path: PathBuf| path.strip_prefix(folder).map_or_else(|_| path.clone(), Path::to_owned);
    arrows.into_iter().map(|((from, to), names)| ((short(from), short(to)), names)).collect()
}

/// The files of each circle in order; the largest circle first.
fn circles(arrows: &Arrows) -> Vec<Vec<&Path>> {
    let graph =
        DiGraphMap::<_, ()>::from_edges(arrows.keys().map(|(from, to)| (from.as_path(), to.as_path())));
    let mut circles = tarjan_scc(&graph);
    circles.retain(|circle| circle.len() > 1);
    for circle in &mut circles {
        circle.sort();
    }
    circles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    circles
}

/// Each circle with its arrows, and the folders that use each other.
fn describe(arrows: &Arrows, circles: &[Vec<&Path>]) -> String {
    use std::fmt::Write as _;

    let mut text = String::new();
    for circle in circles {
        let _ = writeln!(text, "  circle of {} files", circle.len());
        for ((from, to), names) in arrows {
            if circle.contains(&from.as_path()) && circle.contains(&to.as_path()) {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                let _ = writeln!(text, "    {} -> {}: {}", from.display(), to.display(), names.join(", "));
            }
        }
    }
    let between = folders(arrows);
    for ((one, other), there) in &between {
        let Some(back) = between.get(&(other.clone(), one.clone())).filter(|_| one < other) else { continue };
        let _ = writeln!(text, "  both ways: {} and {}", one.display(), other.display());
        for (from, to) in there.iter().chain(back) {
            let _ = writeln!(text, "    {} -> {}", from.display(), to.display());
        }
    }
    text
}

type Folders<'a> = BTreeMap<(PathBuf, PathBuf), Vec<(&'a Path, &'a Path)>>;

/// Arrows between neighbouring folders: where the ways of two files part. `foo.rs` belongs to the folder `foo`, if there is
/// one. A folder's own file and what is in the folder are not neighbours, and neither are two files without folders.
fn folders(arrows: &Arrows) -> Folders<'_> {
    let all: BTreeSet<_> =
        arrows.keys().flat_map(|(from, to)| [from, to]).flat_map(|path| path.ancestors().skip(1)).collect();
    let mut found = Folders::new();
    for (from, to) in arrows.keys() {
        let (one, other) = (from.with_extension(""), to.with_extension(""));
        let common = one.iter().zip(other.iter()).take_while(|(a, b)| a == b).count();
        let parted = |path: &Path| path.iter().take(common + 1).collect::<PathBuf>();
        let (one_folder, other_folder) = (parted(&one), parted(&other));
        let is_below = one.iter().count() == common || other.iter().count() == common;
        let is_root =
            [&one_folder, &other_folder].iter().any(|path| path.ends_with("lib") || path.ends_with("main"));
        let has_folder = all.contains(one_folder.as_path()) || all.contains(other_folder.as_path());
        if !is_below && !is_root && has_folder {
            found.entry((one_folder, other_folder)).or_default().push((from, to));
        }
    }
    found
}

/// What is wrong with the sizes of a crate's circles.
fn circle_fault(package: &str, sizes: &[usize]) -> Option<String> {
    let larger: Vec<_> = sizes.iter().filter(|size| **size > CIRCLE_MAX).collect();
    (!larger.is_empty()).then(|| {
        format!(
            "{package}: circles of {larger:?} files, and {CIRCLE_MAX} are the most; `cargo xtask check rooms` prints them"
        )
    })
}

/// Dependencies of a crate that lead to the same layer, upwards or to another side.
fn layer_faults(package: &Package) -> Vec<String> {
    let Some((layer, side)) = find(&package.name) else {
        return vec![format!("{}: not in the table of layers", package.name)];
    };
    let own = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
    own.filter_map(|dependency| {
        let name = &dependency.name;
        let Some((below, other)) = find(name) else {
            return Some(format!("{name}: not in the table of layers"));
        };
        let reason = if name == LOADED_ONLY {
            "nothing links to it"
        } else if below <= layer {
            "it is not in a lower layer"
        } else if other != side && other != Side::Shared && side != Side::Development {
            "it is of another side"
        } else {
            return None;
        };
        Some(format!("{} depends on {name}: {reason}", package.name))
    })
    .collect()
}

/// The layer of a crate, from the top, and its side.
fn find(name: &str) -> Option<(usize, Side)> {
    LAYERS.iter().enumerate().find_map(|(layer, crates)| {
        crates.iter().find(|(other, _)| *other == name).map(|(_, side)| (layer, *side))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn arrows(pairs: &[(&str, &str)]) -> Arrows {
        pairs.iter().map(|(from, to)| ((from.into(), to.into()), ["name".to_owned()].into())).collect()
    }

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            manifest_path: "/w/Cargo.toml".into(),
            targets: Vec::new(),
            dependencies: dependencies
                .iter()
                .map(|name| Dependency { name: (*name).to_owned(), path: Some("/w".into()) })
                .collect(),
        }
    }

    #[test]
    fn circles_are_printed_arrow_by_arrow() {
        let arrows = arrows(&[("src/a.rs", "src/b.rs"), ("src/b.rs", "src/a.rs"), ("src/b.rs", "src/c.rs")]);
        assert_eq!(
            describe(&arrows, &circles(&arrows)),
            "  circle of 2 files\n    src/a.rs -> src/b.rs: name\n    src/b.rs -> src/a.rs: name\n"
        );
    }

    #[test]
    fn folders_that_use_each_other_are_printed() {
        let arrows = arrows(&[
            ("src/a/x.rs", "src/b/y.rs"),
            ("src/b.rs", "src/a/z.rs"),
            ("src/a.rs", "src/a/x.rs"),
            ("src/a/x.rs", "src/a.rs"),
            ("src/a/x.rs", "src/c.rs"),
        ]);
        assert_eq!(
            describe(&arrows, &[]),
            "  both ways: src/a and src/b\n    src/a/x.rs -> src/b/y.rs\n    src/b.rs -> src/a/z.rs\n"
        );
    }

    #[test]
    fn larger_circles_are_faults() {
        assert_eq!(circle_fault("crate", &[5, 2]), None);
        assert!(circle_fault("crate", &[7, 6, 5]).unwrap().contains("crate: circles of [7, 6] files"));
    }

    #[test]
    fn crates_depend_on_lower_layers_of_their_side() {
        let faults = |name, dependencies: &[&str]| layer_faults(&package(name, dependencies));
        assert!(faults("xsched-ctl", &["xsched-tracer", "xsched-ebpf", "xsched-rules"]).is_empty());
        assert!(faults("xsched-shim", &["xsched-xqueue", "xsched-protocol"]).is_empty());
        assert!(faults("xsched-tests", &["xsched-sched", "xsched-unwind"]).is_empty());
        assert_eq!(
            faults("xsched-sched", &["xsched-rules"]),
            ["xsched-sched depends on xsched-rules: it is not in a lower layer"]
        );
        assert_eq!(
            faults("xsched-xqueue", &["xsched-ebpf"]),
            ["xsched-xqueue depends on xsched-ebpf: it is of another side"]
        );
        assert_eq!(
            faults("xsched-tests", &["xsched-shim"]),
            ["xsched-tests depends on xsched-shim: nothing links to it"]
        );
        assert_eq!(faults("new", &[]), ["new: not in the table of layers"]);
    }
}
