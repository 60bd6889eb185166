//! Prints to standard output and standard error, either of which may be closed.
//!
//! `println!` and `eprintln!` panic then: `xsched-ctl trace -o FILE -- CMD 2>&1 | head` would lose its recording
//! because of a message. So nothing in this program uses them.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};

use crate::{Advice, ExitCode};

/// Like `eprintln!`, even if standard error is closed.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::line(format_args!($($words)*)) };
}

/// Writes a line to standard error.
pub fn line(words: fmt::Arguments<'_>) {
    // There is no other place to report a failure.
    let _ = io::stderr().lock().write_fmt(format_args!("{words}\n"));
}

/// Foreign text without control characters: it cannot end a line or control a terminal.
pub fn one_line(words: &str) -> Cow<'_, str> {
    if !words.contains(char::is_control) {
        return words.into();
    }
    let mut line = String::with_capacity(words.len());
    for character in words.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.into()
}

/// A command's data could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub struct StdoutError(#[source] io::Error);

impl Advice for StdoutError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::OutputFailed
    }
}

/// The reader of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// There is one, as far as is known.
    Present,
    /// Standard output is a pipe whose other end is closed. The reader has seen enough, so this is not an error.
    Gone,
}

/// Writes data to standard output, all of it at once.
pub fn print(text: &str) -> Result<Reader, StdoutError> {
    let mut stdout = io::stdout().lock();
    reader(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

fn reader(outcome: io::Result<()>) -> Result<Reader, StdoutError> {
    match outcome {
        Ok(()) => Ok(Reader::Present),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(cause) => Err(StdoutError(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_on_its_line() {
        assert_eq!(one_line("/a b/\u{fc}"), "/a b/\u{fc}");
        assert_eq!(one_line("/x\n INFO\x1b[2J\u{9b}"), r"/x\n INFO\u{1b}[2J\u{9b}");
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        assert_eq!(reader(Ok(())).unwrap(), Reader::Present);
        assert_eq!(reader(Err(ErrorKind::BrokenPipe.into())).unwrap(), Reader::Gone);
        let full = reader(Err(ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(full.exit_code(), ExitCode::OutputFailed);
    }
}
