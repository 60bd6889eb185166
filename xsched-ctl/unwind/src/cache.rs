//! Tables on disk, so that a library is translated once for all runs.
//!
//! ```text
//! FOLDER/<build id>-<table id>     FOLDER is $XSCHED_CTL_CACHE; else /var/cache/xsched-ctl/unwind for root,
//!                                  $XDG_CACHE_HOME/xsched-ctl/unwind (or ~/.cache/…) for others
//! ```
//!
//! An entry is named by a hash of what it was made from, so that a library that claims another's build id cannot put a
//! wrong table in its place. The folder and its entries must belong to this user, and to nobody else's writing; anything
//! else is left alone. What is damaged or of another version is made again. Nothing about the cache is ever an error: the
//! tables are built then, which takes longer.

mod entry;
mod folder;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tracing::debug;

use crate::elf::UnwindInfo;
use crate::table::{Table, TableId};
use folder::Folder;

/// Bytes of entries that are kept: a dozen programs with all of PyTorch.
const BYTES_MAX: u64 = 512 << 20;

/// Variable that names another folder, or none (`off`).
const VARIABLE: &str = "XSCHED_CTL_CACHE";

/// The tables of earlier runs.
#[derive(Debug)]
pub struct Cache {
    /// None if there is no cache, or it cannot be used.
    folder: Option<Folder>,
}

impl Cache {
    /// The cache that `XSCHED_CTL_CACHE` asks for: a folder, `off`, or the usual place.
    pub fn from_environment() -> Self {
        match folder_asked_for(|name| std::env::var_os(name), rustix::process::geteuid().is_root()) {
            Some(path) => Self::in_folder(&path),
            None => Self::off(),
        }
    }

    /// A cache in this folder, which is made if need be.
    pub fn in_folder(path: &Path) -> Self {
        Self::with_limit(path, BYTES_MAX)
    }

    /// As [`in_folder`](Self::in_folder), keeping at most `bytes_max` of entries.
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

    /// Loads the table made from this, if there is a sound one.
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

    /// Keeps a table.
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

fn folder_asked_for(variable: impl Fn(&str) -> Option<OsString>, is_root: bool) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(asked) = set(VARIABLE) {
        return (asked != "off").then(|| asked.into());
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
