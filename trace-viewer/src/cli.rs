//! The arguments of `xsched-ctl view` and `trace-viewer`.

use std::path::PathBuf;

/// Look at a recorded timeline
///
/// Reads the file, serves a page on 127.0.0.1 and opens it in a browser. The page's address contains a secret; only
/// a browser with the address can read the page. Nothing comes from the network and nothing leaves this machine. The
/// command ends when the page is closed, or on Ctrl-C.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = AFTER_HELP, after_long_help = AFTER_LONG_HELP)]
pub struct View {
    /// The timeline, compressed or not; it may have been cut off
    pub file: PathBuf,

    /// Only print the address; do not start a browser
    #[arg(long)]
    pub no_open: bool,

    /// Serve until Ctrl-C, even when no page is open
    #[arg(long)]
    pub keep: bool,

    /// Hand the file over to the Perfetto UI instead, whose page comes from the network
    #[arg(long)]
    pub perfetto: bool,

    /// The port [default: any free one; 9001 for the Perfetto UI, which can reach no other]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

const AFTER_HELP: &str =
    "On another machine: ssh -L 8000:127.0.0.1:8000 MACHINE xsched-ctl view --no-open --port 8000 FILE";

const AFTER_LONG_HELP: &str = "\
On another machine:
  ssh -L 8000:127.0.0.1:8000 MACHINE xsched-ctl view --no-open --port 8000 FILE
  then open the printed address in the browser here; 9001 instead of 8000 with --perfetto.

Exit status:
  0   the page was closed, or the Perfetto UI has the file
  64  wrong usage
  65  the file is not a timeline; for the Perfetto UI also: it is damaged
  66  the file cannot be read
  69  the port is in use, or serving failed";
