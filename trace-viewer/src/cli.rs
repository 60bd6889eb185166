//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// The only port of this machine from which the Perfetto UI may fetch: its content security policy says so.
const PORT_ALLOWED_BY_THE_UI: u16 = 9001;

/// Open a recorded timeline in the Perfetto UI
///
/// Checks the file, serves it on 127.0.0.1 to the page ui.perfetto.dev and to no other, and opens that page.
/// The page comes from the network; the timeline does not leave this machine and the browser on it.
#[derive(Debug, Parser)]
#[command(version, after_help = AFTER_HELP, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct Cli {
    /// The timeline, as `xsched-ctl` recorded it; one that was cut off is fine
    pub(crate) file: PathBuf,

    /// Only print the address, do not start a browser
    #[arg(long)]
    pub(crate) no_open: bool,

    /// Serve until Ctrl-C, so that the page can be reloaded; otherwise this ends when the page has the timeline
    #[arg(long)]
    pub(crate) keep: bool,

    /// Another port, 0 for any. The page cannot reach it; tests can.
    #[arg(long, hide = true, default_value_t = PORT_ALLOWED_BY_THE_UI)]
    pub(crate) port: u16,
}

const AFTER_HELP: &str =
    "There is no offline viewer yet: without a network, load the file into a Perfetto UI of your own.";

const AFTER_LONG_HELP: &str = "\
There is no offline viewer yet: without a network, load the file into a Perfetto UI of your own.

On another machine:
  ssh -L 9001:127.0.0.1:9001 MACHINE trace-viewer --no-open FILE
  then open the printed address in the browser here.

Exit status:
  0   the timeline was fetched
  64  wrong usage
  65  the file is not a timeline, or is damaged
  66  the file cannot be read
  69  the port is in use, or serving failed";
