//! `cargo xtask bench rocm`: what the shim costs AMD's genuine libraries, on the simulated runtime in null mode, whose calls return at
//! once: all that is measured is the host's time.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::{
    build_programs,
    programs::{self, Program},
    root::Root,
    ways::Stage,
};
use crate::{
    bench::row::{Row, Series},
    setup::{self, Need},
    subject,
    workspace::Workspace,
};

const BENCH: &str = "rocm";

/// Pairs of runs. The one that comes first changes.
const TURNS: usize = 7;

/// What a program keeps of its native speed.
const GOAL: f64 = 0.98;

/// Programs, and what follows their names. A prompt of 512 tokens, 128 of an answer; products for two seconds.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("llama-bench", &["-ngl", "99", "-p", "512", "-n", "128", "-r", "10", "-t", "1", "-o", "json"]),
    ("rocblas", &["2"]),
    ("rocblas-7", &["2"]),
];

/// A test of llama-bench.
#[derive(Deserialize)]
struct Test {
    n_prompt: u32,
    /// Tokens a second.
    avg_ts: f64,
}

/// A metric with its unit and value.
type Speed = (String, &'static str, f64);

/// Measures each program, and shows its rows as JSON.
pub(crate) fn measure(workspace: &Workspace, mut show: impl FnMut(&str) -> Result<()>) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::Rocm])?;
    let root = Root::make()?;
    for line in root.versions()? {
        eprintln!("rocm: the archive served {line}");
    }
    subject::build_released(workspace)?;
    build_programs(workspace, &root)?;
    let stage = Stage::released(workspace, root);
    for (name, words) in PROGRAMS {
        let program = Program::ALL.iter().find(|program| program.name == name);
        let program = program.with_context(|| format!("there is no program {name}"))?;
        for (metric, series) in pairs(workspace, &stage, program, words)? {
            show(&Row::of(BENCH, &metric, &series).at_least(GOAL).json()?)?;
        }
    }
    Ok(())
}

/// A program with the shim and natively, in turn.
fn pairs(
    workspace: &Workspace,
    stage: &Stage,
    program: &Program,
    words: &[&str],
) -> Result<Vec<(String, Series)>> {
    let mut all: Vec<(String, Series)> = Vec::new();
    for turn in 0..TURNS {
        let mut speeds = [Vec::new(), Vec::new()];
        for index in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let preloaded = if index == 0 { stage.preloaded() } else { String::new() };
            speeds[index] = run(workspace, stage, program, &preloaded, words)?;
        }
        let [with_shim, native] = speeds;
        for ((metric, unit, own), (_, _, other)) in with_shim.into_iter().zip(native) {
            if all.iter().all(|(known, _)| *known != metric) {
                all.push((metric.clone(), Series { unit: unit.to_owned(), pairs: Vec::new() }));
            }
            let series = all.iter_mut().find(|(known, _)| *known == metric);
            series.expect("it was added if it was not there").1.pairs.push([own, other]);
        }
    }
    Ok(all)
}

fn run(
    workspace: &Workspace,
    stage: &Stage,
    program: &Program,
    preloaded: &str,
    words: &[&str],
) -> Result<Vec<Speed>> {
    let folder = stage.folder(program, "speed")?;
    let inside =
        stage.inside(program, &folder, preloaded).set("HIP_SIM_NULL", "1").set("HIP_SIM_EXECUTION_LOG", "");
    let executable = workspace.target_dir.join("rocm").join(program.name);
    let mut command =
        inside.command(if program.source.is_empty() { program.name.into() } else { executable });
    if program.source.is_empty() {
        command.arg("-m").arg(programs::model(&workspace.target_dir));
    }
    let output = command.args(words).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.with_context(|| format!("failed to start {}", program.name))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}: {}\n{printed}", program.name, output.status);
    speeds(program, &printed)
}

/// What a run has measured of itself.
fn speeds(program: &Program, printed: &str) -> Result<Vec<Speed>> {
    if program.source.is_empty() {
        let tests: Vec<Test> = serde_json::from_str(printed).context("llama-bench has printed other JSON")?;
        let what = |test: &Test| if test.n_prompt > 0 { "a prompt" } else { "an answer" };
        return Ok(tests
            .iter()
            .map(|test| (format!("{}, {}", program.name, what(test)), "tokens/s", test.avg_ts))
            .collect());
    }
    let line = printed.lines().find_map(|line| line.strip_suffix(" products a second"));
    let count =
        line.and_then(|count| count.parse().ok()).with_context(|| format!("no products: {printed}"))?;
    Ok(vec![(format!("{}, products", program.name), "1/s", count)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_those_that_programs_print() {
        let of = |name: &str, printed: &str| {
            let program = Program::ALL.iter().find(|program| program.name == name).unwrap();
            speeds(program, printed)
        };
        let json =
            r#"[{"n_prompt": 512, "n_gen": 0, "avg_ts": 9.5}, {"n_prompt": 0, "n_gen": 128, "avg_ts": 2.0}]"#;
        let found = of("llama-bench", json).unwrap();
        assert_eq!(found[0], ("llama-bench, a prompt".to_owned(), "tokens/s", 9.5));
        assert_eq!(found[1], ("llama-bench, an answer".to_owned(), "tokens/s", 2.0));
        let found = of("rocblas", "rocblas_create_handle(&handle) = 0\n1234.5 products a second\n").unwrap();
        assert_eq!(found, [("rocblas, products".to_owned(), "1/s", 1234.5)]);
        assert!(of("rocblas", "rocblas_create_handle(&handle) = 1\n").is_err());
    }
}
