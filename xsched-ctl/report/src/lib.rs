//! `xsched-ctl report`: summarizes a recorded timeline by library, kernel, stream, thread, process and function.
//!
//! The file is read once from beginning to end. Memory grows with the number of different libraries, kernels and so on,
//! not with its length.

mod collect;
mod delays;
mod device_time;
mod groups;
mod json;
mod text;
mod view;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use xsched_perfetto::{Input, ReadError, Tail, TraceReader};

use collect::Collected;
pub use groups::Dimension;
pub use view::ViewError;
use xsched_recording::KernelNames;
use xsched_terminal::{Advice, ExitCode, StdoutError, print, say, unreadable};

/// Why there is no report, or only one of a part of the file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum ReportError {
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot write {path}: {cause}")]
    Page {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{0} is the recording itself, which the page would replace")]
    PageIsRecording(PathBuf),
    #[error("{0} is empty")]
    Empty(PathBuf),
    #[error("{path} is no Perfetto trace: failed to {cause}")]
    NotATrace { path: PathBuf, cause: ReadError },
    #[error("{0} is a Perfetto trace without calls that xsched-ctl has recorded")]
    Foreign(PathBuf),
    /// It is damaged; what precedes the damage has been reported.
    #[error("{path} is damaged: failed to {cause}")]
    Damaged { path: PathBuf, cause: ReadError },
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Stdout(#[from] StdoutError),
}

impl Advice for ReportError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreadable { path, .. } if path == Path::new(STDIN) => {
                "pipe a recording into it: `xsched-ctl report - < FILE`".to_owned()
            }
            Self::Unreadable { path, cause } => unreadable::hint(path, cause),
            Self::Page { path, cause } if cause.kind() == io::ErrorKind::StorageFull => {
                let folder = unreadable::folder_of(path).display();
                format!("free space there (`df {folder}`), or choose another file with `--html FILE`")
            }
            Self::Page { .. } | Self::PageIsRecording(_) => {
                "choose another file with `--html FILE`".to_owned()
            }
            Self::Empty(_) => {
                "a recording has content from its first moment on; with `--ring`, from its first dump on"
                    .to_owned()
            }
            Self::NotATrace { .. } | Self::Foreign(_) => {
                "`xsched-ctl trace -o FILE` records what this can read".to_owned()
            }
            Self::Damaged { .. } => "the report covers the part before the damage".to_owned(),
            Self::View(error) => return error.hint(),
            Self::Stdout(error) => return error.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Unreadable { .. } => ExitCode::NoTarget,
            Self::Page { .. } | Self::PageIsRecording(_) => ExitCode::CannotCreate,
            Self::Empty(_) | Self::NotATrace { .. } | Self::Foreign(_) | Self::Damaged { .. } => {
                ExitCode::BadData
            }
            Self::View(error) => error.exit_code(),
            Self::Stdout(error) => error.exit_code(),
        }
    }
}

/// What is to be reported.
#[derive(Clone, Debug)]
pub struct Options {
    /// The timeline, compressed or not; `-` is standard input.
    pub file: PathBuf,
    /// What to sum up by; empty for what is usual.
    pub by: Vec<Dimension>,
    /// Rows of each table; none for what is usual.
    pub top: Option<usize>,
    /// Show kernels by their whole names, and template instances apart.
    pub full_names: bool,
    /// Print one JSON object.
    pub json: bool,
    /// Write this page instead.
    pub html: Option<PathBuf>,
}

/// The name of standard input in messages.
const STDIN: &str = "standard input";

/// Prints the report of a recording, or writes its page.
pub fn run(arguments: &Options) -> Result<(), ReportError> {
    if let Some(page) = &arguments.html {
        return write_page(&arguments.file, page);
    }
    let is_stdin = arguments.file == Path::new("-");
    let path = if is_stdin { Path::new(STDIN) } else { &arguments.file };
    let unreadable = |cause| ReportError::Unreadable { path: path.to_owned(), cause };
    let file: Box<dyn Read> =
        if is_stdin { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(unreadable)?) };
    let mut input = Input::open(file).map_err(unreadable)?;
    let (collected, tail, damage) = read(path, &mut input)?;
    match tail {
        Tail::Cut { offset, .. } if !input.is_compressed() => {
            say!("{} was cut off: the report covers its first {offset} bytes", path.display());
        }
        Tail::Cut { .. } => say!("{} was cut off: the report covers what is there", path.display()),
        Tail::Whole if input.is_cut() => {
            say!("{} was cut off: the report covers what is there", path.display());
        }
        Tail::Whole => {}
    }
    let is_whole = tail == Tail::Whole && !input.is_cut() && damage.is_none();
    let report = if arguments.json {
        json::render(&arguments.file, &collected, &arguments.by, arguments.top, is_whole)
    } else {
        let names = if arguments.full_names { KernelNames::Full } else { KernelNames::Folded };
        text::render(path, &collected, &arguments.by, arguments.top, names)
    };
    print(&report)?;
    damage.map_or(Ok(()), |cause| Err(ReportError::Damaged { path: path.to_owned(), cause }))
}

/// Writes the page. Memory grows with the recording, because the picture in the page needs every slice.
fn write_page(recording: &Path, page: &Path) -> Result<(), ReportError> {
    if is_same_file(recording, page) {
        return Err(ReportError::PageIsRecording(page.to_owned()));
    }
    let content = trace_viewer::report(recording).map_err(ViewError)?;
    if page == Path::new("-") {
        print(&content)?;
        return Ok(());
    }
    write_whole(page, content.as_bytes())
        .map_err(|cause| ReportError::Page { path: page.to_owned(), cause })?;
    say!("{} written; the page is self-contained", page.display());
    Ok(())
}

/// Writes a file so that no reader sees a part of it: it is made next to its destination, and replaces the old one when
/// it is complete.
fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(file) if file.is_file() => file,
        // A pipe or a device is not replaced.
        Ok(other) => return fs::write(other, content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file = File::create_new(&beside)?;
    // The permissions of the old page are kept.
    let permissions = fs::metadata(&path).map(|before| before.permissions());
    let kept = permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions));
    let outcome = kept.and_then(|()| file.write_all(content)).and_then(|()| fs::rename(&beside, &path));
    if outcome.is_err() {
        // The error is reported. If this removal fails too, the file remains next to its destination.
        let _ = fs::remove_file(&beside);
    }
    outcome
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    place(one).is_some_and(|place_of_one| place(other) == Some(place_of_one))
}

/// Reads a trace as far as it is readable: its content, how it ends, and the damage.
fn read(path: &Path, input: &mut impl Read) -> Result<(Collected, Tail, Option<ReadError>), ReportError> {
    let mut reader = TraceReader::new(input);
    let mut collected = Collected::default();
    let mut damage = None;
    while let Some(event) = reader.next() {
        match event {
            Ok(event) => collected.event(event),
            // Errors that are not the system's come from damaged compressed data.
            Err(ReadError::Io { source, .. })
                if reader.bytes_read() == 0 && source.raw_os_error().is_some() =>
            {
                return Err(ReportError::Unreadable { path: path.to_owned(), cause: source });
            }
            Err(cause) if reader.bytes_read() == 0 => {
                return Err(ReportError::NotATrace { path: path.to_owned(), cause });
            }
            Err(cause) => damage = Some(cause),
        }
    }
    let tail = reader.tail();
    if reader.bytes_read() == 0 && tail == Tail::Whole {
        return Err(ReportError::Empty(path.to_owned()));
    }
    if !collected.is_ours() {
        return Err(match damage {
            Some(cause) => ReportError::Damaged { path: path.to_owned(), cause },
            None => ReportError::Foreign(path.to_owned()),
        });
    }
    Ok((collected, tail, damage))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_page_does_not_replace_its_recording() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("link"));
        fs::write(&file, "a recording").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for page in [&file, &link] {
            let refused = write_page(&file, page).unwrap_err();
            assert_eq!(refused.exit_code(), ExitCode::CannotCreate, "{refused}");
            assert_eq!(fs::read_to_string(&file).unwrap(), "a recording");
        }
    }

    #[test]
    fn a_page_takes_the_place_of_another_and_of_no_device() {
        let dir = tempfile::tempdir().unwrap();
        let (page, link) = (dir.path().join("page"), dir.path().join("link"));
        std::os::unix::fs::symlink(&page, &link).unwrap();
        fs::write(&page, "an older one").unwrap();
        fs::set_permissions(&page, fs::Permissions::from_mode(0o600)).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), "new");
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);

        let device = dir.path().join("device");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        write_whole(&device, b"new").unwrap();
        assert!(!device.is_file());
        assert_eq!(write_whole(dir.path(), b"new").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing is left beside them");
    }
}
