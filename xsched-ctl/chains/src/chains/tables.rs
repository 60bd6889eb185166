//! Unwind tables of the files that stacks have led into.
//!
//! A table is built in the background when a stack first needs it, and given to the programs when it is ready. The
//! opened file identifies a mapping's content: inode numbers are reused, and libraries are rebuilt in place. A file of a slow
//! file system is asked for again until it is open.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_abi::chain::{CHUNK_BITS, CHUNKS_MAX};
use xsched_symbols::{Backing, FileId, Mapping, OpenError, Patience, open_mapped};
use xsched_unwind::{Builder, Cache, Image, Need, Table, vdso};

use super::rows::{LoadError, Loaded, Rows};
use crate::maps::ChainMaps;

/// Most rows that are kept, of all tables together: the capacity of the programs' maps. No table is evicted, because an
/// ended program may run again.
const ROWS_MAX: usize = (CHUNKS_MAX as usize) << CHUNK_BITS;

/// Number of remembered mappings from which unused ones are forgotten.
const MAPPINGS_MAX: usize = 8192;

/// How often slow file systems are asked again.
const ASK: Duration = Duration::from_millis(20);

/// Identifies the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Content {
    File { device: u64, inode: u64, bytes: u64, modified: (i64, i64) },
    Vdso,
}

/// What is known of the code in a mapping.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Its table, and its location in the programs' maps if it is there.
    Table(Arc<Table>, Option<Loaded>),
    Building,
    /// Its file system has not answered yet.
    Opening,
    Tableless,
    /// Its file could not be opened.
    Gone,
    /// The process has generated it: see [`Mapping::may_hold_generated_code`].
    Generated,
}

pub(super) struct Tables {
    builder: Builder<Content>,
    /// By address of the mapping, which is kept alive so that the address stays unique.
    contents: HashMap<usize, (Arc<Mapping>, Option<Content>)>,
    /// The content of files when they were last opened.
    seen: HashMap<FileId, Content>,
    built: HashMap<Content, Known>,
    /// Wanted mappings whose file is being opened, by address of the mapping, each with a process that has it.
    opening: HashMap<usize, (u32, Arc<Mapping>, Need)>,
    asked: Instant,
    rows: Rows,
    /// How many more rows may be kept.
    rows_left: usize,
    /// The log has said that a table was not kept.
    is_full: bool,
    /// Tables that did not fit into the programs' maps, or were not kept.
    refused: u64,
}

impl Tables {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            builder: Builder::new(Cache::from_environment())?,
            contents: HashMap::new(),
            seen: HashMap::new(),
            built: HashMap::new(),
            opening: HashMap::new(),
            asked: Instant::now(),
            rows: Rows::new(),
            rows_left: ROWS_MAX,
            is_full: false,
            refused: 0,
        })
    }

    /// What is known of a mapping of a process. Requests nothing.
    pub(super) fn look(&mut self, pid: u32, mapping: &Arc<Mapping>) -> Known {
        match mapping.backing {
            Backing::File | Backing::Memfd | Backing::Vdso => {}
            _ => return Known::Generated,
        }
        let content = match self.content(pid, mapping) {
            Ok(content) => content,
            Err(missing) => return missing.known(),
        };
        match self.built.get(&content) {
            // Which parts of an arbitrary file are code is unknown.
            Some(Known::Generated) if !mapping.may_hold_generated_code() => Known::Tableless,
            Some(known) => known.clone(),
            None => Known::Building,
        }
    }

    /// Like [`look`](Self::look), and requests the table.
    pub(super) fn want(&mut self, pid: u32, mapping: &Arc<Mapping>, need: Need) -> Known {
        let known = self.look(pid, mapping);
        if !matches!(known, Known::Building | Known::Opening) {
            return known;
        }
        let known = match self.content(pid, mapping) {
            Ok(content) if self.builder.needs(&content, need) => Known::Building,
            Ok(content) => match open(pid, mapping) {
                Ok((_, image)) => {
                    self.builder.request(content, image, need);
                    Known::Building
                }
                Err(missing) => missing.known(),
            },
            Err(missing) => missing.known(),
        };
        if matches!(known, Known::Opening) {
            let (_, _, most) =
                self.opening.entry(key(mapping)).or_insert_with(|| (pid, Arc::clone(mapping), need));
            *most = need.max(*most);
        }
        known
    }

    /// Asks again for the files that are being opened. Returns whether there was any answer.
    fn ask_again(&mut self) -> bool {
        if self.opening.is_empty() || self.asked.elapsed() < ASK {
            return false;
        }
        self.asked = Instant::now();
        let before = self.opening.len();
        for (pid, mapping, need) in std::mem::take(&mut self.opening).into_values() {
            // One that no process has any more is not needed.
            if Arc::strong_count(&mapping) > 1 {
                self.want(pid, &mapping, need);
            }
        }
        self.opening.len() < before
    }

    fn content(&mut self, pid: u32, mapping: &Arc<Mapping>) -> Result<Content, Missing> {
        let key = key(mapping);
        if let Some((_, content)) = self.contents.get(&key) {
            return content.ok_or(Missing::Gone);
        }
        if self.contents.len() >= MAPPINGS_MAX {
            self.contents.retain(|_, (mapping, _)| Arc::strong_count(mapping) > 1);
            self.seen.clear();
        }
        let content = match (open(pid, mapping), mapping.file) {
            (Err(Missing::Unanswered), _) => return Err(Missing::Unanswered),
            (Ok((content, _)), file) => {
                if let Some(file) = file {
                    self.seen.insert(file, content);
                }
                Some(content)
            }
            // The process has ended meanwhile, but the same file was opened earlier.
            (Err(Missing::Gone), Some(file)) => self.seen.get(&file).copied(),
            (Err(Missing::Gone), None) => None,
        };
        self.contents.insert(key, (Arc::clone(mapping), content));
        content.ok_or(Missing::Gone)
    }

    /// Sets whether stacks wait for tables.
    pub(super) fn hurry(&mut self, is_hurried: bool) {
        self.builder.set_urgent(is_hurried);
    }

    /// Takes in finished tables, and gives them to the programs. Returns whether there were any, or a file was opened late.
    pub(super) fn collect(&mut self, maps: &mut ChainMaps) -> bool {
        let is_any_open = self.ask_again();
        let completed = self.builder.completed();
        let any = !completed.is_empty() || is_any_open;
        for built in completed {
            let table = match built.result {
                Ok(table) if !self.has_room(&table) => Known::Tableless,
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
                // It is not an ELF file.
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

    /// Whether there is space to keep a table. Its rows count from then on, unless files of equal content share it.
    fn has_room(&mut self, table: &Table) -> bool {
        let is_known = |known: &Known| matches!(known, Known::Table(other, _) if other.id() == table.id());
        if self.built.values().any(is_known) {
            return true;
        }
        if let Some(left) = self.rows_left.checked_sub(table.rows().len()) {
            self.rows_left = left;
            return true;
        }
        if !std::mem::replace(&mut self.is_full, true) {
            tracing::warn!("call chains end at newly seen libraries: too many others were on stacks before");
        }
        self.refused += 1;
        false
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
                // Stacks that lead there are still walked in user space.
                match error {
                    LoadError::Full { .. } => tracing::debug!("{error}"),
                    LoadError::Bpf(_) => tracing::warn!("stacks are walked more slowly: {error}"),
                }
                self.refused += 1;
                None
            }
        }
    }

    /// Tables that did not fit into the programs' maps, or were not kept.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// Why the content of a mapping is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// Its file could not be opened.
    Gone,
    /// Its file system has not answered yet.
    Unanswered,
}

impl Missing {
    fn known(self) -> Known {
        match self {
            Self::Gone => Known::Gone,
            Self::Unanswered => Known::Opening,
        }
    }
}

fn key(mapping: &Arc<Mapping>) -> usize {
    Arc::as_ptr(mapping) as usize
}

fn open(pid: u32, mapping: &Mapping) -> Result<(Content, Image), Missing> {
    if mapping.backing == Backing::Vdso {
        let image = vdso().ok().flatten().ok_or(Missing::Gone)?;
        return Ok((Content::Vdso, image));
    }
    let file = open_mapped(pid, mapping, Patience::Short).map_err(|error| match error {
        OpenError::Silent { .. } => Missing::Unanswered,
        _ => Missing::Gone,
    })?;
    let metadata = file.metadata().map_err(|_| Missing::Gone)?;
    let content = Content::File {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    };
    Ok((content, file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_kept_while_there_is_space_for_their_rows() {
        let built = |path: &str| {
            let table = Table::build(&std::fs::File::open(path).unwrap().into()).unwrap();
            assert!(!table.rows().is_empty());
            Arc::new(table)
        };
        let own = std::env::current_exe().unwrap();
        let (first, second) = (built(own.to_str().unwrap()), built("/bin/sh"));
        let mut tables = Tables::new().unwrap();
        tables.rows_left = first.rows().len() + second.rows().len() - 1;
        assert!(tables.has_room(&first));
        let content = |inode| Content::File { device: 1, inode, bytes: 2, modified: (3, 4) };
        tables.built.insert(content(1), Known::Table(Arc::clone(&first), None));
        assert!(tables.has_room(&first), "another file of the same content");
        assert!(!tables.has_room(&second));
        assert_eq!((tables.rows_left, tables.refused()), (second.rows().len() - 1, 1));
    }
}
