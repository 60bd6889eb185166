//! One command that makes one file, run only when an input or the command itself has changed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use anyhow::{Context as _, Result};

use crate::command;

/// A command with its output and inputs.
pub(super) struct Step {
    program: &'static str,
    arguments: Vec<OsString>,
    inputs: Vec<PathBuf>,
    output: PathBuf,
}

impl Step {
    /// `program -o output`
    pub(super) fn new(program: &'static str, output: PathBuf) -> Self {
        let arguments = vec!["-o".into(), output.clone().into()];
        Self { program, arguments, inputs: Vec::new(), output }
    }

    /// Appends words that are not inputs.
    pub(super) fn arguments<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Appends folders in which the compiler looks for headers.
    pub(super) fn include(self, folders: &[PathBuf]) -> Self {
        self.arguments(folders.iter().map(|folder| format!("-I{}", folder.display())))
    }

    /// Appends a word that is an input.
    pub(super) fn input(mut self, path: PathBuf) -> Self {
        self.arguments.push(path.clone().into());
        self.depends_on([path])
    }

    /// Adds inputs that the command finds by itself.
    pub(super) fn depends_on(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.inputs.extend(paths);
        self
    }

    /// Runs the command if needed; returns the output's path.
    pub(super) fn run(self) -> Result<PathBuf> {
        if self.is_fresh()? {
            return Ok(self.output);
        }
        if let Some(folder) = self.output.parent() {
            fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        }
        command::run(command::command(self.program).args(&self.arguments))?;
        let record = self.record();
        fs::write(&record, self.command_line())
            .with_context(|| format!("failed to write {}", record.display()))?;
        Ok(self.output)
    }

    fn command_line(&self) -> String {
        format!("{} {:?}\n", self.program, self.arguments)
    }

    /// The file beside the output that has the command of its last success.
    fn record(&self) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(self.output.file_name().unwrap_or_default());
        name.push(".command");
        self.output.with_file_name(name)
    }

    fn is_fresh(&self) -> Result<bool> {
        let Some(made) = modified(&self.output)? else { return Ok(false) };
        if fs::read_to_string(self.record()).ok().as_deref() != Some(&self.command_line()) {
            return Ok(false);
        }
        for input in &self.inputs {
            // The command reports a missing input.
            if modified(input)?.is_none_or(|changed| changed > made) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The headers in some folders.
pub(super) fn headers(folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let listed: Result<Vec<_>> = folders.iter().map(|folder| files(folder, &["h", "hpp"])).collect();
    Ok(listed?.concat())
}

/// The files of a folder with one of these extensions, in a fixed order.
pub(super) fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().and_then(OsStr::to_str).is_some_and(|e| extensions.contains(&e)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// When a file last changed; none if there is no such file.
fn modified(path: &Path) -> Result<Option<SystemTime>> {
    match fs::metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(time) => Ok(Some(time)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to look at {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Copies by a program that takes `-o` as compilers do, and counts its runs by appending to a log.
    fn copy(folder: &Path, words: &[&str]) -> Step {
        let script = r#"echo run >> "$(dirname "$2")/log"; cp "$3" "$2""#;
        let mut step = Step::new("sh", folder.join("out"));
        step.arguments =
            vec!["-c".into(), script.into(), "-o".into(), "-o".into(), folder.join("out").into()];
        step.input(folder.join("in")).arguments(words)
    }

    fn runs(folder: &Path) -> usize {
        fs::read_to_string(folder.join("log")).map_or(0, |log| log.lines().count())
    }

    fn age(path: &Path) {
        let past = SystemTime::now() - Duration::from_mins(1);
        fs::File::options().append(true).open(path).unwrap().set_modified(past).unwrap();
    }

    #[test]
    fn a_step_runs_again_when_its_input_or_its_command_changes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("in"), "1").unwrap();
        age(&folder.join("in"));

        copy(folder, &[]).run().unwrap();
        copy(folder, &[]).run().unwrap();
        assert_eq!(runs(folder), 1, "nothing changed");

        copy(folder, &["-O2"]).run().unwrap();
        assert_eq!(runs(folder), 2, "another command");

        age(&folder.join("out"));
        fs::write(folder.join("in"), "2").unwrap();
        copy(folder, &["-O2"]).run().unwrap();
        assert_eq!((runs(folder), fs::read_to_string(folder.join("out")).unwrap()), (3, "2".into()));
    }

    #[test]
    fn a_failed_command_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        copy(folder.path(), &[]).run().unwrap_err();
        copy(folder.path(), &[]).run().unwrap_err();
        assert_eq!(runs(folder.path()), 2);
    }
}
