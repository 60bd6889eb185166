//! Unwind tables of the files that stacks have led into.
//!
//! A table is built in the background when a stack first needs it, and given to the programs (`loader.rs`) when it is ready. The
//! opened file identifies a mapping's content: inode numbers are reused, and libraries are rebuilt in place. A file of a slow
//! file system is asked for again until it is open.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_abi::chain::{CHUNK_BITS, CHUNKS_MAX};
use xsched_symbols::{Backing, FileId, Mapping, OpenError, Patience, open_mapped};
use xsched_unwind::{Builder, Cache, Image, Need, Table, vdso};

use super::loader::{Loader, Place};
use super::rows::LoadError;

/// Most rows that are kept, of all tables together: the capacity of the programs' maps. No table is evicted, because an
/// ended program may run again.
const ROWS_MAX: usize = (CHUNKS_MAX as usize) << CHUNK_BITS;

/// Number of remembered mappings from which unused ones are forgotten. If more are in use, twice as many as these.
const MAPPINGS_MAX: usize = 8192;

/// How often slow file systems are asked again, and for how many files at most. Each file costs a few system calls, even if its
/// file system is not asked because earlier requests to it are open.
const ASK: Duration = Duration::from_millis(20);
const ASKED_MAX: usize = 64;

/// Identifies the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Content {
    File { device: u64, inode: u64, bytes: u64, modified: (i64, i64) },
    Vdso,
}

/// What is known of the code in a mapping.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// See [`Tables::place`].
    Table(Arc<Table>),
    Building,
    /// Its file system has not answered yet.
    Opening,
    Tableless,
    /// Its file could not be opened.
    Gone,
    /// The process has generated it: see [`Mapping::may_hold_generated_code`].
    Generated,
}

/// Opens the file of a process's mapping.
type Opener = fn(u32, &Mapping) -> Result<(Content, Image), Missing>;

/// A mapping whose file is being opened.
struct Opening {
    /// A process that has it.
    pid: u32,
    mapping: Arc<Mapping>,
    /// None: only what it is was asked for.
    need: Option<Need>,
}

pub(super) struct Tables {
    builder: Builder<Content>,
    /// By address of the mapping, which is kept alive so that the address stays unique.
    contents: HashMap<usize, (Arc<Mapping>, Option<Content>)>,
    /// When there are this many, unused ones are forgotten.
    contents_max: usize,
    /// The content of files when they were last opened.
    seen: HashMap<FileId, Content>,
    built: HashMap<Content, Known>,
    /// Mappings whose file is being opened, by address of the mapping.
    opening: HashMap<usize, Opening>,
    /// The order in which they are asked for again.
    turns: VecDeque<usize>,
    asked: Instant,
    opener: Opener,
    loader: Loader,
    /// How many more rows may be kept.
    rows_left: usize,
    /// The log has said that a table was not kept.
    is_full: bool,
    /// Tables that were requested so far.
    requested: u64,
    /// Tables that did not fit into the programs' maps, or were not kept.
    refused: u64,
}

impl Tables {
    pub(super) fn new(loader: Loader) -> io::Result<Self> {
        Ok(Self {
            builder: Builder::new(Cache::from_environment())?,
            contents: HashMap::new(),
            contents_max: MAPPINGS_MAX,
            seen: HashMap::new(),
            built: HashMap::new(),
            opening: HashMap::new(),
            turns: VecDeque::new(),
            asked: Instant::now(),
            opener: open,
            loader,
            rows_left: ROWS_MAX,
            is_full: false,
            requested: 0,
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
            Ok(content) => match self.open(pid, mapping) {
                Ok((_, image)) => {
                    self.builder.request(content, image, need);
                    self.requested += 1;
                    Known::Building
                }
                Err(missing) => missing.known(),
            },
            Err(missing) => missing.known(),
        };
        if let Some(opening) = self.opening.get_mut(&key(mapping)) {
            opening.need = opening.need.max(Some(need));
        }
        known
    }

    /// Asks again for some of the files that are being opened. Returns whether there was any answer.
    fn ask_again(&mut self) -> bool {
        if self.opening.is_empty() || self.asked.elapsed() < ASK {
            return false;
        }
        self.asked = Instant::now();
        let before = self.opening.len();
        let due: Vec<_> = self.turns.drain(..self.turns.len().min(ASKED_MAX)).collect();
        for key in due {
            let Some(Opening { pid, mapping, need }) = self.opening.remove(&key) else { continue };
            // One that no process has any more is not needed.
            if Arc::strong_count(&mapping) <= 1 + usize::from(self.contents.contains_key(&key)) {
                continue;
            }
            match need {
                Some(need) => _ = self.want(pid, &mapping, need),
                None => _ = self.look(pid, &mapping),
            }
        }
        self.opening.len() < before
    }

    /// Opens the file of a mapping, unless that is under way.
    fn open(&mut self, pid: u32, mapping: &Arc<Mapping>) -> Result<(Content, Image), Missing> {
        let key = key(mapping);
        if self.opening.contains_key(&key) {
            return Err(Missing::Unanswered);
        }
        let opened = (self.opener)(pid, mapping);
        if matches!(opened, Err(Missing::Unanswered)) {
            self.opening.insert(key, Opening { pid, mapping: Arc::clone(mapping), need: None });
            self.turns.push_back(key);
        }
        opened
    }

    fn content(&mut self, pid: u32, mapping: &Arc<Mapping>) -> Result<Content, Missing> {
        let key = key(mapping);
        if let Some((_, content)) = self.contents.get(&key) {
            return content.ok_or(Missing::Gone);
        }
        if self.contents.len() >= self.contents_max {
            self.contents.retain(|_, (mapping, _)| Arc::strong_count(mapping) > 1);
            self.contents_max = MAPPINGS_MAX.max(2 * self.contents.len());
            self.seen.clear();
        }
        let content = match (self.open(pid, mapping), mapping.file) {
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

    /// Takes in finished tables, and has them given to the programs. Returns whether more is known than before.
    pub(super) fn collect(&mut self) -> bool {
        let is_any_open = self.ask_again();
        let completed = self.builder.completed();
        let (loaded, errors) = self.loader.collect();
        let any = !completed.is_empty() || loaded > 0 || is_any_open;
        for error in errors {
            match error {
                LoadError::Full { .. } => tracing::debug!("{error}"),
                LoadError::Bpf(_) => tracing::warn!("stacks are walked more slowly: {error}"),
            }
            self.refused += 1;
        }
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
                    self.loader.load(&table);
                    Known::Table(table)
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

    /// Where the programs have a table.
    pub(super) fn place(&self, table: &Table) -> Place {
        self.loader.place(table.id())
    }

    /// Whether there is space to keep a table. Its rows count from then on, unless files of equal content share it.
    fn has_room(&mut self, table: &Table) -> bool {
        if self.loader.has(table.id()) {
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

    /// Tables that were requested so far.
    pub(super) fn requested(&self) -> u64 {
        self.requested
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
    use std::os::fd::AsRawFd as _;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::{ptr, thread};

    use xsched_symbols::Processes;

    use super::*;
    use crate::chains::rows::Loaded;

    impl Tables {
        pub(in crate::chains) fn without_programs() -> Self {
            let full = |table: &Table| Err(LoadError::Full { rows: table.rows().len() });
            Self::new(Loader::start(full).unwrap()).unwrap()
        }
    }

    #[test]
    fn files_of_a_dead_file_system_are_asked_for_in_turn_and_not_otherwise() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        const COUNT: usize = 3 * ASKED_MAX;
        let own = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        for _ in 0..COUNT {
            let (access, kind) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
            // SAFETY: a new mapping, at an address of the kernel's choice.
            let start = unsafe { libc::mmap(ptr::null_mut(), 4096, access, kind, own.as_raw_fd(), 0) };
            assert_ne!(start, libc::MAP_FAILED);
        }
        let mut processes = Processes::new();
        let pid = std::process::id();
        processes.scan(pid).unwrap();
        let code: Vec<_> =
            processes.process(pid).unwrap().code().map(|(_, mapping)| Arc::clone(mapping)).collect();
        let code: Vec<_> = code.into_iter().filter(|mapping| mapping.backing == Backing::File).collect();
        assert!(code.len() > COUNT, "{}", code.len());

        let mut tables = Tables::without_programs();
        tables.opener = |_, _| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Err(Missing::Unanswered)
        };
        for _ in 0..3 {
            for mapping in &code {
                assert!(matches!(tables.want(pid, mapping, Need::Waiting), Known::Opening));
            }
        }
        assert_eq!(ASKED.swap(0, Ordering::Relaxed), code.len(), "each once");
        let mut turns = 0;
        while ASKED.load(Ordering::Relaxed) < code.len() {
            tables.asked -= ASK;
            assert!(!tables.ask_again());
            turns += 1;
            assert!(ASKED.load(Ordering::Relaxed) <= turns * ASKED_MAX);
        }
        assert_eq!((tables.opening.len(), tables.turns.len()), (code.len(), code.len()));
        drop((code, processes));
        while !tables.opening.is_empty() {
            tables.asked -= ASK;
            assert!(tables.ask_again(), "no process has them any more");
        }
    }

    #[test]
    fn tables_are_kept_while_there_is_space_for_their_rows() {
        let built = |path: &str| {
            let table = Table::build(&std::fs::File::open(path).unwrap().into()).unwrap();
            assert!(!table.rows().is_empty());
            Arc::new(table)
        };
        let own = std::env::current_exe().unwrap();
        let (first, second) = (built(own.to_str().unwrap()), built("/bin/sh"));
        let mut tables = Tables::without_programs();
        tables.rows_left = first.rows().len() + second.rows().len() - 1;
        assert!(tables.has_room(&first));
        tables.loader.load(&first);
        assert!(tables.has_room(&first), "another file of the same content");
        assert!(!tables.has_room(&second));
        assert_eq!((tables.rows_left, tables.refused()), (second.rows().len() - 1, 1));
    }

    #[test]
    fn a_table_is_of_use_here_while_the_kernel_takes_its_time_with_it() {
        let (slow, kernel) = mpsc::channel();
        let loaded = Loaded { pages: 4, page_first: 2, page_count: 3 };
        let loader = Loader::start(move |_| kernel.recv().unwrap()).unwrap();
        let mut tables = Tables::new(loader).unwrap();
        let mut processes = Processes::new();
        let pid = std::process::id();
        processes.scan(pid).unwrap();
        let code = processes.process(pid).unwrap().code();
        let of_file = |(_, mapping): &(_, &Arc<Mapping>)| mapping.backing == Backing::File;
        let mapping = code.filter(of_file).map(|(_, mapping)| Arc::clone(mapping)).next().unwrap();
        let table = loop {
            tables.collect();
            if let Known::Table(table) = tables.want(pid, &mapping, Need::Waiting) {
                break table;
            }
            thread::sleep(Duration::from_millis(1));
        };
        assert!(!tables.collect(), "nothing is known that was not");
        assert_eq!(tables.place(&table), Place::Coming);
        slow.send(Ok(loaded)).unwrap();
        while !tables.collect() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((tables.place(&table), tables.refused()), (Place::There(loaded), 0));
    }
}
