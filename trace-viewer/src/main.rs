//! `trace-viewer`: shows a recorded timeline, as `xsched-ctl view` does.

use std::process::ExitCode;

use clap::Parser;
use trace_viewer::View;

/// A wrong command line (`EX_USAGE`).
const EXIT_USAGE: u8 = 64;

/// Look at a recorded timeline
#[derive(Debug, Parser)]
#[command(name = "trace-viewer", version)]
struct Cli {
    #[command(flatten)]
    view: View,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Printing fails only if the stream is closed, and then there is no reader.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    match trace_viewer::view(&cli.view) {
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
