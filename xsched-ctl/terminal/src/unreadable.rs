//! Files that cannot be read, and folders of files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::ExitCode;

/// How similar a name must be to be the one that was meant: 1 is the same.
const LIKENESS: f64 = 0.7;

/// The hint for a file that cannot be read.
pub fn hint(path: &Path, cause: &io::Error) -> String {
    match cause.kind() {
        ErrorKind::NotFound => why_not_found(path),
        ErrorKind::InvalidData => "a text file is expected; `file` shows what this is".to_owned(),
        _ => format!("`ls -l {}` shows it", path.display()),
    }
}

/// The first part of the path that is missing, or the file that may have been meant.
fn why_not_found(path: &Path) -> String {
    let folder = folder_of(path);
    if !folder.exists() {
        let missing = folder.ancestors().take_while(|folder| !folder.exists()).last().unwrap_or(folder);
        return format!("there is no folder {}: check the path", missing.display());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let likeness = |other: &str| strsim::normalized_damerau_levenshtein(&name, other);
    let meant = names
        .map(|other| (likeness(&other.to_string_lossy()), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match meant {
        Some((_, meant)) => format!("did you mean {}?", folder.join(meant).display()),
        None if path.is_relative() => match std::env::current_dir() {
            Ok(here) => format!(
                "it is looked for in {}: give the whole path",
                here.join(folder).components().as_path().display()
            ),
            Err(_) => "give the whole path".to_owned(),
        },
        None => format!("{} has no file of that or a similar name: check the path", folder.display()),
    }
}

/// The exit code for it.
pub fn exit_code(cause: &io::Error) -> ExitCode {
    if cause.kind() == ErrorKind::InvalidData { ExitCode::BadData } else { ExitCode::NoTarget }
}

/// The folder of a file, which need not exist.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_path_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let missing = |path: &Path| hint(path, &ErrorKind::NotFound.into());
        fs::write(at("run.perfetto.gz"), "").unwrap();
        let meant = format!("did you mean {}?", at("run.perfetto.gz").display());
        assert_eq!(missing(&at("run.perfetto")), meant);
        let none = format!("there is no folder {}: check the path", at("a").display());
        assert_eq!(missing(&at("a/b/run.perfetto")), none);
        let unlike =
            format!("{} has no file of that or a similar name: check the path", dir.path().display());
        assert_eq!(missing(&at("x")), unlike);
        assert!(missing(Path::new("no-such-file")).starts_with("it is looked for in /"));
        assert_eq!(hint(Path::new("/a/b"), &ErrorKind::PermissionDenied.into()), "`ls -l /a/b` shows it");
    }

    #[test]
    fn what_is_no_text_is_of_the_wrong_kind() {
        assert_eq!(exit_code(&ErrorKind::InvalidData.into()), ExitCode::BadData);
        assert_eq!(exit_code(&ErrorKind::NotFound.into()), ExitCode::NoTarget);
    }
}
