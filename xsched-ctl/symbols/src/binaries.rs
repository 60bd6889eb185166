//! The ELF files that were read, each once for all processes that map it.
//!
//! A mapping looks its file up once and keeps it (`Mapping::binary`). The metadata of the opened file identifies
//! its content. Inode numbers are reused, and a rebuilt library often gets the number of the one that it
//! replaces, so the identity includes size and modification time.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crate::elf::{Elf, ElfError};
use crate::mapping::{FileId, Mapping};
use crate::open::{OpenError, Patience, open_mapped};
use crate::processes::NameError;

/// Above this number, files that no mapping uses any more are dropped.
const BINARIES_MAX: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Binaries {
    by_content: HashMap<Content, Arc<Elf>>,
    /// For files that are deleted when their process ends. Only files with a known generation, which identifies one file.
    by_file: HashMap<FileId, Arc<Elf>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Content {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Binaries {
    /// The file of a mapping of `pid`.
    pub(crate) fn of(&mut self, pid: u32, mapping: &Mapping) -> Result<Arc<Elf>, NameError> {
        if let Some(known) = mapping.binary.get() {
            return Ok(known.clone()?);
        }
        if mapping.file.is_none() {
            return Err(NameError::NoFile(mapping.backing));
        }
        if mapping.is_unopenable_by(pid) {
            return Err(NameError::Gone);
        }
        let unique = mapping.file.filter(|file| file.generation.is_some());
        let file = match open_mapped(pid, mapping, Patience::Short) {
            Ok(file) => file,
            Err(error) => {
                if let Some(known) = unique.and_then(|file| self.by_file.get(&file)) {
                    return Ok(mapping.binary.get_or_init(|| Ok(Arc::clone(known))).clone()?);
                }
                if matches!(error, OpenError::Silent { .. }) {
                    return Err(NameError::Unanswered);
                }
                mapping.set_unopenable_by(pid);
                return Err(NameError::Gone);
            }
        };
        let binary = self.load(file);
        if let (Some(file), Ok(binary)) = (unique, &binary) {
            self.by_file.insert(file, Arc::clone(binary));
        }
        Ok(mapping.binary.get_or_init(|| binary).clone()?)
    }

    fn load(&mut self, file: File) -> Result<Arc<Elf>, ElfError> {
        let metadata = file.metadata().map_err(|error| ElfError::Read(error.kind()))?;
        let content = Content {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        };
        if let Some(known) = self.by_content.get(&content) {
            return Ok(Arc::clone(known));
        }
        let binary = Arc::new(Elf::open(file)?);
        if self.by_content.len() >= BINARIES_MAX {
            self.drop_unused();
        }
        self.by_content.insert(content, Arc::clone(&binary));
        Ok(binary)
    }

    fn drop_unused(&mut self) {
        // A file that is in both maps and in no mapping has a reference count of two.
        self.by_file.retain(|_, binary| Arc::strong_count(binary) > 2);
        self.by_content.retain(|_, binary| Arc::strong_count(binary) > 1);
    }
}
