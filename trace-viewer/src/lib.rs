//! Shows recorded timelines: as a page that this machine serves, offline, and as a report to send to other people.
//!
//! A file is read once into columns (`store`). The page (`page`, and the scripts in `assets/`) is served on 127.0.0.1
//! (`server`) and requests what is in view. That is never more than there are pixels (`resolution`), so the length of a
//! recording makes no difference. `explain` says why a launch waited, `overview` sums up the whole timeline. `hand_over`
//! gives a file to the Perfetto UI, which reads whole files itself.

mod browser;
mod cli;
mod explain;
mod failure;
mod hand_over;
mod http;
mod overview;
mod page;
mod positioned;
mod resolution;
mod search;
mod server;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod token;

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
};

pub use crate::{cli::View, failure::Failure};
use crate::{hand_over::HandOver, server::Server, summary::Summary};

/// Shows a timeline. Returns once no page shows it any more.
pub fn view(arguments: &View) -> Result<(), Failure> {
    if arguments.perfetto {
        return hand_over(arguments);
    }
    let file = open(&arguments.file)?;
    let store = store::load(&arguments.file, &file)?;
    let server = Server::listen(arguments.file.clone(), store, arguments.port.unwrap_or(0))?;
    show(&server.url());
    let opened = (!arguments.no_open).then(|| browser::open_privately(&server.url())).flatten();
    if opened.is_none() {
        say("open this address in a browser on this machine");
    }
    let until = if arguments.keep { "you press Ctrl-C" } else { "you close the page" };
    say(&format!("serving {} on 127.0.0.1 until {until}", arguments.file.display()));
    server.serve(arguments.keep)
}

/// Prints an address. `println!` would panic if standard output is closed, but a browser may have been opened all the same.
fn show(address: &str) {
    let _ = writeln!(io::stdout().lock(), "{address}");
}

/// Prints a message to standard error, without a panic if that is closed.
fn say(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// The report of a timeline: a self-contained HTML page.
pub fn report(path: &Path) -> Result<String, Failure> {
    let store = store::load(path, &open(path)?)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Ok(page::report(&name, &store))
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|source| Failure::Input { file: path.to_owned(), source })
}

fn hand_over(arguments: &View) -> Result<(), Failure> {
    let mut trace = summary::open(&arguments.file)?;
    let summary = Summary::read(&arguments.file, &mut trace)?;
    say(&format!("{}: {summary}", arguments.file.display()));

    let port = arguments.port.unwrap_or(hand_over::PORT_ALLOWED_BY_THE_UI);
    let hand_over = HandOver::listen(&arguments.file, trace, port)?;
    show(&hand_over.ui_url());
    if arguments.no_open || !browser::open(&hand_over.ui_url()) {
        say("open this address in a browser on this machine");
    }
    let until = if arguments.keep { "you press Ctrl-C" } else { "it has been fetched" };
    say(&format!("serving the timeline on 127.0.0.1:{} until {until}", hand_over.port()));
    hand_over.serve(arguments.keep)
}
