//! `trace-viewer`: opens a recorded timeline.
//!
//! Today that means handing it to the Perfetto UI in a browser: the file is checked (`summary`), served to
//! that page alone (`hand_over`), and the page's address is shown and opened (`browser`).

mod browser;
mod cli;
mod failure;
mod hand_over;
mod summary;

use std::process::ExitCode;

use clap::Parser;

use crate::{cli::Cli, failure::Failure, hand_over::HandOver, summary::Summary};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // It fails only if the stream is closed, and then nobody reads it.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::EXIT_USAGE } else { 0 });
        }
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("trace-viewer: {failure}");
            if let Some(hint) = failure.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let mut trace = summary::open(&cli.file)?;
    let summary = Summary::read(&cli.file, &mut trace)?;
    eprintln!("{}: {summary}", cli.file.display());

    let hand_over = HandOver::listen(&cli.file, trace, cli.port)?;
    println!("{}", hand_over.ui_url());
    if cli.no_open || !browser::open(&hand_over.ui_url()) {
        eprintln!("open this address in a browser on this machine");
    }
    let until = if cli.keep { "you press Ctrl-C" } else { "it has been fetched" };
    eprintln!("serving the timeline on 127.0.0.1:{} until {until}", hand_over.port());
    hand_over.serve(cli.keep)
}
