//! The unwind tables of the files that stacks have led into.
//!
//! A table is built when a stack first needs it, in the background, and given to the programs when it is there. What a
//! mapping shows is decided by the opened file: an inode number may be used again, and a library rebuilt in its place.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use xsched_symbols::{Backing, FileId, Mapping, open_mapped};
use xsched_unwind::{Builder, Cache, Image, Table, vdso};

use super::rows::{LoadError, Loaded, Rows};
use crate::bpf::ChainMaps;

/// Mappings that are remembered before those that nobody has any more are forgotten.
const MAPPINGS_MAX: usize = 8192;

/// What tells the contents of files apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Content {
    File { device: u64, inode: u64, bytes: u64, modified: (i64, i64) },
    Vdso,
}

/// What is known of the code in a mapping.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Its table, and where the programs find it if they have it.
    Table(Arc<Table>, Option<Loaded>),
    /// Its table is being built.
    Building,
    /// There is none to be had.
    Tableless,
    /// The process has made it: see [`Mapping::may_hold_generated_code`].
    Generated,
}

/// Files and their tables.
pub(super) struct Tables {
    builder: Builder<Content>,
    /// By address of the mapping, which is kept so that the address stays its own.
    contents: HashMap<usize, (Arc<Mapping>, Option<Content>)>,
    /// What files were when they were last opened.
    seen: HashMap<FileId, Content>,
    /// What building them has come to.
    built: HashMap<Content, Known>,
    rows: Rows,
    /// Tables that the programs could not be given.
    refused: u64,
}

impl Tables {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            builder: Builder::new(Cache::from_environment())?,
            contents: HashMap::new(),
            seen: HashMap::new(),
            built: HashMap::new(),
            rows: Rows::new(),
            refused: 0,
        })
    }

    /// What is known of a mapping of a process, without asking for more.
    pub(super) fn look(&mut self, pid: u32, mapping: &Arc<Mapping>) -> Known {
        match mapping.backing {
            Backing::File | Backing::Memfd | Backing::Vdso => {}
            _ => return Known::Generated,
        }
        let Some(content) = self.content(pid, mapping) else { return Known::Tableless };
        match self.built.get(&content) {
            // Of files that lie about, it is not known what is code in them.
            Some(Known::Generated) if !mapping.may_hold_generated_code() => Known::Tableless,
            Some(known) => known.clone(),
            None => Known::Building,
        }
    }

    /// As [`look`](Self::look), and has the table built.
    pub(super) fn want(&mut self, pid: u32, mapping: &Arc<Mapping>) -> Known {
        let known = self.look(pid, mapping);
        if !matches!(known, Known::Building) {
            return known;
        }
        let Some(content) = self.content(pid, mapping) else { return Known::Tableless };
        match open(pid, mapping) {
            Some((_, image)) => {
                self.builder.request(content, image);
                Known::Building
            }
            // It may have been requested before, by a process that was still there.
            None if self.builder.pending() > 0 => Known::Building,
            None => Known::Tableless,
        }
    }

    fn content(&mut self, pid: u32, mapping: &Arc<Mapping>) -> Option<Content> {
        let key = Arc::as_ptr(mapping) as usize;
        if let Some((_, content)) = self.contents.get(&key) {
            return *content;
        }
        if self.contents.len() >= MAPPINGS_MAX {
            self.contents.retain(|_, (mapping, _)| Arc::strong_count(mapping) > 1);
            self.seen.clear();
        }
        let content = match (open(pid, mapping), mapping.file) {
            (Some((content, _)), file) => {
                if let Some(file) = file {
                    self.seen.insert(file, content);
                }
                Some(content)
            }
            // The process has ended meanwhile, but another one, or this one before, has shown the same file.
            (None, Some(file)) => self.seen.get(&file).copied(),
            (None, None) => None,
        };
        self.contents.insert(key, (Arc::clone(mapping), content));
        content
    }

    /// Takes in tables that have been built, and gives them to the programs. Whether there were any.
    pub(super) fn collect(&mut self, maps: &mut ChainMaps) -> bool {
        let completed = self.builder.completed();
        let any = !completed.is_empty();
        for built in completed {
            let table = match built.result {
                Ok(table) => {
                    tracing::debug!(
                        rows = table.rows().len(),
                        from_cache = built.from_cache,
                        took = ?built.took,
                        "unwind table"
                    );
                    let loaded = self.load(maps, &table);
                    Known::Table(table, loaded)
                }
                // Its content never was a program's.
                Err(xsched_unwind::Error::NotElf) => Known::Generated,
                Err(error) => {
                    tracing::debug!("no unwind table: {error}");
                    Known::Tableless
                }
            };
            self.built.insert(built.key, table);
        }
        any
    }

    fn load(&mut self, maps: &mut ChainMaps, table: &Arc<Table>) -> Option<Loaded> {
        // Files of equal content share a table.
        let loaded = self.built.values().find_map(|known| match known {
            Known::Table(other, loaded) if other.id() == table.id() => *loaded,
            _ => None,
        });
        if loaded.is_some() {
            return loaded;
        }
        match self.rows.load(maps, table) {
            Ok(loaded) => Some(loaded),
            Err(error) => {
                // Stacks that lead there go on being walked in user space.
                match error {
                    LoadError::Full { .. } => tracing::debug!("{error}"),
                    LoadError::Bpf(_) => tracing::warn!("stacks are walked more slowly: {error}"),
                }
                self.refused += 1;
                None
            }
        }
    }

    /// Tables that the programs could not be given.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// Opens what a mapping shows.
fn open(pid: u32, mapping: &Mapping) -> Option<(Content, Image)> {
    if mapping.backing == Backing::Vdso {
        return Some((Content::Vdso, vdso().ok()??));
    }
    let file = open_mapped(pid, mapping).ok()?;
    let metadata = file.metadata().ok()?;
    let content = Content::File {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    };
    Some((content, file.into()))
}
