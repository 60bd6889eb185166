//! Files that cannot be read, and folders of files.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::ExitCode;

/// The hint for a text file that cannot be read.
pub fn hint(path: &Path, cause: &io::Error) -> String {
    match cause.kind() {
        ErrorKind::NotFound => format!("`ls {}` lists what is there", folder_of(path).display()),
        ErrorKind::InvalidData => "a text file is expected; `file` shows what this is".to_owned(),
        _ => format!("`ls -l {}` shows it", path.display()),
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
    fn a_file_that_is_not_there_cannot_be_shown() {
        assert_eq!(hint(Path::new("rules.toml"), &ErrorKind::NotFound.into()), "`ls .` lists what is there");
        assert_eq!(hint(Path::new("/a/b"), &ErrorKind::NotFound.into()), "`ls /a` lists what is there");
        assert_eq!(hint(Path::new("/a/b"), &ErrorKind::PermissionDenied.into()), "`ls -l /a/b` shows it");
    }

    #[test]
    fn what_is_no_text_is_of_the_wrong_kind() {
        assert_eq!(exit_code(&ErrorKind::InvalidData.into()), ExitCode::BadData);
        assert_eq!(exit_code(&ErrorKind::NotFound.into()), ExitCode::NoTarget);
    }
}
