//! The Python scripts, each with the part that they share before it. They are passed to the interpreter as an argument, so nothing
//! is left on the node.

use std::ffi::OsString;
use std::path::Path;

/// A script for the node's interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Versions,
    Ladder,
    Model,
}

impl Script {
    fn text(self) -> String {
        let own = match self {
            Self::Versions => include_str!("../scripts/versions.py"),
            Self::Ladder => include_str!("../scripts/ladder.py"),
            Self::Model => include_str!("../scripts/model.py"),
        };
        [include_str!("../scripts/parts.py"), "\n", own].concat()
    }

    /// The command line.
    pub(crate) fn words(self, python: &Path, arguments: &[String]) -> Vec<OsString> {
        // -B: no cache files; -u: nothing is kept back.
        let fixed = [python.into(), "-B".into(), "-u".into(), "-c".into(), self.text().into()];
        fixed.into_iter().chain(arguments.iter().map(Into::into)).collect()
    }
}
