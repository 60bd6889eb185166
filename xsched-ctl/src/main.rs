//! `xsched-ctl`: traces every HIP and CUDA launch with the library that made it, and schedules GPU work.
//!
//! Data goes to standard output, everything else to standard error. ARCHITECTURE.md describes the parts.

mod absence;
mod attach;
mod cgroup;
mod cli;
mod command;
mod doctor;
mod ending;
mod failure;
mod list;
mod manual;
mod order;
mod pods;
mod rules;
mod run;
mod top;
mod trace;
mod trace_config;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use tracing_subscriber::EnvFilter;
use xsched_report::ViewError;
use xsched_terminal::{
    Advice as _, Descriptors, ExitCode as Code, Internal, Shortage, say, survive_writes, with_causes,
};

use cli::{Cli, FieldClient, Verb};
use failure::Failure;

fn main() -> ExitCode {
    survive_writes();
    let cli = match Cli::read(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are not errors.
            let code = if error.use_stderr() { Code::Usage.into() } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    // A controller logs all changes and the processes that made them.
    let usual = if matches!(cli.verb, Verb::Serve(_)) { "info,audit=info" } else { "warn" };
    let filter = filter(usual);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        // These would be printed by `eprintln!`, which panics when standard error is closed.
        .log_internal_errors(false)
        .init();
    match run_verb(cli.verb) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say!("xsched-ctl: {}", with_causes(&failure));
            let (hint, code) = match Shortage::behind(&failure) {
                Some(shortage) => (Some(shortage.hint().to_owned()), shortage.exit_code()),
                None => (failure.hint(), failure.exit_code()),
            };
            if let Some(hint) = hint {
                say!("hint: {hint}");
            }
            code.into()
        }
    }
}

/// The log filter: from the environment if it is set there, otherwise the default.
fn filter(usual: &str) -> EnvFilter {
    const VARIABLE: &str = "XSCHED_CTL_LOG";
    let asked = std::env::var_os(VARIABLE).filter(|asked| !asked.is_empty());
    let Some(asked) = asked else { return EnvFilter::new(usual) };
    let asked = asked.to_string_lossy();
    // Messages of BPF programs cost traced processes time, and need Linux 5.19: they are sent only where they are named.
    let names_programs = asked.split(',').any(|directive| directive.trim().split('=').next() == Some("bpf"));
    let asked = if names_programs { asked.into_owned() } else { format!("{asked},bpf=off") };
    EnvFilter::try_new(asked).unwrap_or_else(|error| {
        say!(
            "xsched-ctl: {VARIABLE} is not a filter such as `warn,audit=info`, so the default is used: {error}"
        );
        EnvFilter::new(usual)
    })
}

fn run_verb(verb: Verb) -> Result<u8, Failure> {
    if let Verb::FieldClient(FieldClient { words }) = verb {
        // Before anything that a plain program would not do.
        return Ok(xsched_field::client(&words));
    }
    let descriptors = Descriptors::raise().map_err(Internal::at("opening files"))?;
    // One thread is enough: work comes in batches, and output has its own thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Internal::at("starting the event loop"))?;
    match verb {
        Verb::Trace(arguments) => runtime.block_on(trace::run(arguments, descriptors)),
        Verb::Attach(arguments) => runtime.block_on(attach::run(arguments)),
        Verb::Report(arguments) => Ok(xsched_report::run(&arguments.options()).map(|()| 0)?),
        Verb::Replay(arguments) => Ok(xsched_replay::run(&arguments.options()).map(|()| 0)?),
        Verb::View(arguments) => Ok(trace_viewer::view(&arguments).map(|()| 0).map_err(ViewError)?),
        Verb::Doctor(arguments) => match arguments.pid {
            None if arguments.json => runtime.block_on(doctor::run(doctor::Form::Json)),
            None => runtime.block_on(doctor::run(doctor::Form::Lines)),
            Some(pid) => runtime.block_on(doctor::process::run(pid)),
        },
        Verb::Serve(arguments) => Ok(runtime.block_on(xsched_controller::run(arguments.options()))?),
        Verb::Run(arguments) => runtime.block_on(run::run(arguments, descriptors)),
        Verb::Set(arguments) => runtime.block_on(order::set(arguments)),
        Verb::Policy(arguments) => runtime.block_on(order::policy(arguments)),
        Verb::Rules(arguments) => runtime.block_on(rules::run(arguments)),
        Verb::List(arguments) => runtime.block_on(list::run(arguments)),
        Verb::Top(arguments) => runtime.block_on(top::run(arguments)),
        Verb::Off(arguments) => runtime.block_on(order::off(arguments)),
        Verb::On(arguments) => runtime.block_on(order::on(arguments)),
        Verb::Manual(arguments) => manual::run(&arguments, &Cli::command()),
        Verb::Field(arguments) => Ok(runtime.block_on(xsched_field::run(&arguments.options()))?),
        Verb::FieldClient(_) => unreachable!("it has returned"),
    }
}
