//! Tables on disk, so that a library is translated once for all runs.
//!
//! ```text
//! FOLDER/<build id>-<table id>     FOLDER is $XSCHED_CTL_CACHE; else /var/cache/xsched-ctl/unwind for root,
//!                                  $XDG_CACHE_HOME/xsched-ctl/unwind (or ~/.cache/…) for others
//! ```
//!
//! The name of an entry contains a hash of the table's input, so that a library with another's build id cannot replace that
//! one's table. The folder and its entries must belong to this user, and other users must not be able to write to them;
//! others are ignored. Entries that are damaged or of another version are built again. Problems with the cache are never
//! errors: the tables are built without it, which takes longer.

mod entry;
mod folder;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tracing::debug;

use crate::elf::UnwindInfo;
use crate::table::{Table, TableId};
use folder::Folder;

/// The most bytes of all entries: enough for a dozen programs with all of PyTorch.
const BYTES_MAX: u64 = 512 << 20;

/// The variable with another folder, or `off`.
const VARIABLE: &str = "XSCHED_CTL_CACHE";

/// The tables of earlier runs.
#[derive(Debug)]
pub struct Cache {
    /// None if the cache is off or cannot be used.
    folder: Option<Folder>,
}

impl Cache {
    /// The cache according to `XSCHED_CTL_CACHE`: a folder, `off`, or by default the usual folder.
    pub fn from_environment() -> Self {
        match requested_folder(|name| std::env::var_os(name), rustix::process::geteuid().is_root()) {
            Some(path) => Self::in_folder(&path),
            None => Self::off(),
        }
    }

    /// A cache in this folder, which is created if it does not exist.
    pub fn in_folder(path: &Path) -> Self {
        Self::with_limit(path, BYTES_MAX)
    }

    /// Like [`in_folder`](Self::in_folder), with at most `bytes_max` bytes of entries.
    pub fn with_limit(path: &Path, bytes_max: u64) -> Self {
        let folder = Folder::open(path, bytes_max);
        if let Err(error) = &folder {
            debug!(folder = %path.display(), %error, "unwind tables are not cached");
        }
        Self { folder: folder.ok() }
    }

    /// No cache.
    pub fn off() -> Self {
        Self { folder: None }
    }

    /// Loads the table for this unwind information, if there is a valid one.
    pub(crate) fn load(&self, info: &UnwindInfo) -> Option<Table> {
        let folder = self.folder.as_ref()?;
        let id = TableId::of(info);
        let name = entry_name(info, id);
        let bytes = folder.read(&name).inspect_err(|error| debug!(name, %error, "no cached table")).ok()?;
        let table =
            entry::decode(&bytes, id).inspect_err(|why| debug!(name, why, "cached table refused")).ok()?;
        folder.touch(&name);
        Some(table)
    }

    pub(crate) fn store(&self, info: &UnwindInfo, table: &Table) {
        let Some(folder) = &self.folder else { return };
        let name = entry_name(info, table.id());
        if let Err(error) = folder.write(&name, &entry::encode(table)) {
            debug!(name, %error, "unwind table not cached");
        }
    }
}

fn entry_name(info: &UnwindInfo, id: TableId) -> String {
    let mut name = String::new();
    for byte in &info.build_id {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    if name.is_empty() {
        name.push_str("none");
    }
    format!("{name}-{id}")
}

fn requested_folder(variable: impl Fn(&str) -> Option<OsString>, is_root: bool) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(requested) = set(VARIABLE) {
        return (requested != "off").then(|| requested.into());
    }
    if is_root {
        return Some("/var/cache/xsched-ctl/unwind".into());
    }
    let base = set("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
    base.map(|base| base.join("xsched-ctl/unwind"))
}

#[cfg(test)]
mod tests;
