//! The files of a report. They are written after every step, so even a kit that is killed leaves what it has found.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::{Private, Report, html};
use crate::error::FieldError;

/// Where a report goes.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) html: PathBuf,
    pub(crate) json: PathBuf,
}

impl Files {
    /// Makes both files; neither may exist.
    pub(crate) fn create(base: &Path) -> Result<Self, FieldError> {
        let with = |extension: &str| {
            let mut name = base.as_os_str().to_owned();
            name.push(extension);
            PathBuf::from(name)
        };
        let files = Self { html: with(".html"), json: with(".json") };
        for path in [&files.html, &files.json] {
            let made = OpenOptions::new().write(true).create_new(true).open(path);
            made.map_err(|cause| FieldError::Output { path: path.clone(), cause })?;
        }
        Ok(files)
    }

    /// Replaces the contents of both. A reader sees the old ones or the new ones.
    pub(crate) fn write(&self, report: &Report, private: Option<&Private>) -> Result<(), FieldError> {
        let hidden = private.map(|private| private.hide(report)).transpose().map_err(FieldError::report)?;
        let report = hidden.as_ref().unwrap_or(report);
        let mut json = serde_json::to_string_pretty(report).expect("reports have no maps with odd keys");
        json.push('\n');
        replace(&self.json, &json)?;
        replace(&self.html, &html::page(report, &json))
    }
}

fn replace(path: &Path, text: &str) -> Result<(), FieldError> {
    let failed = |cause| FieldError::Output { path: path.to_owned(), cause };
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    // One that a killed kit has left, or a link of another user that may write to the folder: root does not write through it.
    let _ = fs::remove_file(&new);
    let made = OpenOptions::new().write(true).create_new(true).open(&new);
    let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| fs::rename(&new, path)).map_err(|cause| {
        let _ = fs::remove_file(&new);
        failed(cause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn both_files_are_new_and_have_the_whole_report() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("a.b");
        let files = Files::create(&base).unwrap();
        assert!(Files::create(&base).is_err_and(|error| error.to_string().contains("a.b.html")));
        files.write(&example(), None).unwrap();
        let json = fs::read_to_string(&files.json).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), example());
        assert!(fs::read_to_string(&files.html).unwrap().ends_with("</html>\n"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_report_is_not_written_through_a_link_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let (base, other) = (folder.path().join("a"), folder.path().join("other"));
        let files = Files::create(&base).unwrap();
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("a.json.new")).unwrap();
        files.write(&example(), None).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        assert!(!fs::symlink_metadata(&files.json).unwrap().is_symlink());
    }
}
