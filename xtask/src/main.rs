//! `cargo xtask`: the entry point of every development verb, for developers and for CI.
//!
//! Each verb is in the file of its name, and first sets up what it needs.

mod artifacts;
mod bench;
mod check;
mod clients;
mod command;
mod conformance;
mod demo;
mod kernels;
mod package;
mod rocm;
mod setup;
mod subject;
mod test;
mod venv;
mod vm;
mod workspace;
mod xsched_examples;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Set up, try, check, test and measure xsched-ctl.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install and mount everything that the other verbs need; reports what it cannot get
    Setup,
    /// Record a timeline of a small HIP program that calls through two libraries; or show urgent work going first
    Demo(demo::Args),
    /// Check format, lints, documentation, forbidden things, dependencies and words; runs all, then lists the failures
    Check(check::Args),
    /// Run the tests, end-to-end tests included
    Test(test::Args),
    /// Run the conformance suite alone, on the simulated HIP runtimes or on an installed ROCm
    Conformance(conformance::Args),
    /// Run a benchmark; it prints series and asserts nothing
    Bench(bench::Args),
    /// Run XSched's own examples on our headers and libraries, and judge them by their own criterion
    XschedExamples(xsched_examples::Args),
    /// Make packages for Debian and for RPM, to install on other machines
    Package(package::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    let workspace = Workspace::find()?;
    match verb {
        Verb::Setup => setup::everything(&workspace),
        Verb::Demo(args) => demo::run(&workspace, &args),
        Verb::Check(args) => check::run(&workspace, &args),
        Verb::Test(args) => test::run(&workspace, &args),
        Verb::Conformance(args) => conformance::run(&workspace, &args),
        Verb::Bench(args) => bench::run(&workspace, &args),
        Verb::XschedExamples(args) => xsched_examples::run(&workspace, &args),
        Verb::Package(args) => package::run(&workspace, &args),
    }
}
