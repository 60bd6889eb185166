//! Reads ELF files: their segments and the symbols that they define.
//!
//! Files are read, not mapped: if the owner of a mapped file truncates it, the reader gets SIGBUS. All contents
//! are checked. A size beyond the end of the file, or larger than in any real library, is an error.

mod headers;
mod registration;

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

pub use self::headers::ElfError;
use self::headers::{Headers, read_range};
use crate::clock::now_ns;
use crate::symbol_table::{SymbolKind, SymbolTable, name_at};

/// The longest name that is searched for. Without a limit, a string table without terminators would be read to its end for
/// each symbol.
const WANTED_BYTES_MAX: usize = 256;

/// Symbols of more bytes are read on a thread: a library of PyTorch has a hundred thousand and more, which takes a tenth of a second.
const READ_AT_ONCE_MAX: u64 = 1 << 20;

/// Files whose symbols are being read on threads.
static BEING_READ: AtomicUsize = AtomicUsize::new(0);

/// When a thread was last done.
static LAST_READ_NS: AtomicU64 = AtomicU64::new(0);

/// For so long after a thread was done, a name may have been asked for before.
const ASKED_BEFORE_NS: u64 = 200_000_000;

/// Whether symbols of any file are being read on a thread, or were a moment ago.
pub(crate) fn are_symbols_being_read() -> bool {
    BEING_READ.load(Ordering::Acquire) > 0
        || match LAST_READ_NS.load(Ordering::Acquire) {
            0 => false,
            last_ns => now_ns().saturating_sub(last_ns) < ASKED_BEFORE_NS,
        }
}

/// One ELF file: its segments, and its symbols, which are read on the first request.
#[derive(Debug)]
pub(crate) struct Elf {
    headers: Arc<Headers>,
    symbols: Arc<Symbols>,
    /// For a file without a symbol table: the kernels that it registers, as soon as one is asked for.
    kernels: OnceLock<Arc<RegisteredKernels>>,
}

/// The symbols of a file.
#[derive(Debug)]
struct Symbols {
    /// Open until they are read, so that they are found even after the file is deleted; longer if it registers kernels.
    file: Mutex<Option<File>>,
    read: OnceLock<Result<SymbolTable, ElfError>>,
    /// A thread reads them, or has.
    is_on_thread: AtomicBool,
}

/// Names of kernels by the addresses of their handles, as soon as they are read.
type RegisteredKernels = OnceLock<HashMap<u64, Arc<str>>>;

impl Elf {
    pub(crate) fn open(file: File) -> Result<Self, ElfError> {
        let headers = Arc::new(Headers::read(&file)?);
        let symbols = Symbols {
            file: Mutex::new(Some(file)),
            read: OnceLock::new(),
            is_on_thread: AtomicBool::new(false),
        };
        Ok(Self { headers, symbols: Arc::new(symbols), kernels: OnceLock::new() })
    }

    /// The difference between the addresses of the process and those of the file, for an executable mapping of
    /// this file at `start`, from `file_offset` on. None if the mapping does not map an executable segment.
    pub(crate) fn bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        let segment = self.headers.executable_segment(file_offset)?;
        let address = segment.address.wrapping_sub(segment.file_offset).wrapping_add(file_offset);
        Some(start.wrapping_sub(address))
    }

    /// Whether the file's address belongs to a segment, `.bss` included.
    pub(crate) fn covers(&self, address: u64) -> bool {
        self.headers.segments.iter().any(|segment| segment.pages_contain(address))
    }

    /// The offset in the file of the byte at the file's address; None for `.bss`.
    pub(crate) fn file_offset_of(&self, address: u64) -> Option<u64> {
        self.headers.file_offset_of(address)
    }

    /// The symbols. Waits while they are read.
    pub(crate) fn symbols(&self) -> Result<&SymbolTable, ElfError> {
        self.symbols.read(&self.headers)
    }

    /// The same without a wait of more than a few milliseconds: None while they are read, on a thread if they are many.
    pub(crate) fn symbols_soon(&self) -> Option<Result<&SymbolTable, ElfError>> {
        if self.symbols.read.get().is_some() || self.headers.symbol_bytes() <= READ_AT_ONCE_MAX {
            return Some(self.symbols());
        }
        if !self.symbols.is_on_thread.swap(true, Ordering::Relaxed) {
            let (headers, symbols) = (Arc::clone(&self.headers), Arc::clone(&self.symbols));
            let being_read = BeingRead::new();
            let read = move || {
                let _being_read = being_read;
                let _ = symbols.read(&headers);
            };
            if thread::Builder::new().name("symbols".to_owned()).spawn(read).is_err() {
                return Some(self.symbols());
            }
        }
        // A thread that has panicked has read nothing.
        let is_done = self.symbols.read.get().is_some() || BEING_READ.load(Ordering::Acquire) == 0;
        is_done.then(|| self.symbols())
    }

    /// The mangled name of the kernel that a stripped file registers by a handle at the file's address. Waits while the file is
    /// read.
    pub(crate) fn registered_kernel(&self, address: u64) -> Option<Arc<str>> {
        self.registered_kernels().wait().get(&address).cloned()
    }

    /// Whether the kernels that a stripped file registers are being read, from now on if need be. Code and data of a large library
    /// take seconds.
    pub(crate) fn is_reading_kernels(&self) -> bool {
        self.registered_kernels().get().is_none()
    }

    fn registered_kernels(&self) -> &Arc<RegisteredKernels> {
        // It says whether the file is kept. It may have no symbols.
        let _ = self.symbols();
        self.kernels.get_or_init(|| {
            let kernels = Arc::<RegisteredKernels>::default();
            let Some(file) = self.symbols.file.lock().unwrap_or_else(PoisonError::into_inner).take() else {
                let _ = kernels.set(HashMap::new());
                return kernels;
            };
            let reading = Reading(Arc::clone(&kernels));
            let headers = Arc::clone(&self.headers);
            let read = move || drop(reading.0.set(registration::read(&headers, &file)));
            // Without a thread, or after a panic, no kernel is known.
            let _ = thread::Builder::new().name("kernel names".to_owned()).spawn(read);
            kernels
        })
    }
}

impl Symbols {
    fn read(&self, headers: &Headers) -> Result<&SymbolTable, ElfError> {
        let read = || {
            // A panic while the lock was held leaves the file unchanged.
            let mut kept = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let file = kept.take().ok_or(ElfError::NoSymbols)?;
            let symbols = headers.read_symbols(&file);
            let is_stripped = headers.tables.iter().all(|table| table.dynamic);
            *kept = (is_stripped && registration::is_possible(headers, &file)).then_some(file);
            symbols
        };
        self.read.get_or_init(read).as_ref().map_err(ElfError::clone)
    }
}

/// Counts among [`BEING_READ`], however the thread that holds it ends.
struct BeingRead;

impl BeingRead {
    fn new() -> Self {
        BEING_READ.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for BeingRead {
    fn drop(&mut self) {
        LAST_READ_NS.store(now_ns(), Ordering::Release);
        BEING_READ.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Held by the thread that reads; ends the wait for it, however it ends.
struct Reading(Arc<RegisteredKernels>);

impl Drop for Reading {
    fn drop(&mut self) {
        let _ = self.0.set(HashMap::new());
    }
}

/// File offsets of the dynamic functions with `wanted` names, at which uprobes can be attached.
///
/// A name that is defined in several versions is returned once for each address. Resolvers of indirect functions
/// are left out: their code is not that of the function.
pub fn symbol_file_offsets(
    file: &File,
    mut wanted: impl FnMut(&str) -> bool,
) -> Result<Vec<(String, u64)>, ElfError> {
    let headers = Headers::read(file)?;
    let mut found = Vec::new();
    for table in headers.tables.iter().filter(|table| table.dynamic) {
        let strings = read_range(file, "string table", table.strings)?;
        headers.each_symbol(file, table, |symbol| {
            if symbol.kind != SymbolKind::Function {
                return;
            }
            let name = wanted_name_at(&strings, symbol.name);
            let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) else {
                return;
            };
            if wanted(name)
                && let Some(offset) = headers.file_offset_of(symbol.address)
            {
                found.push((name.to_owned(), offset));
            }
        })?;
    }
    if !headers.tables.iter().any(|table| table.dynamic) {
        return Err(ElfError::NoSymbols);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The file's address of the dynamic variable with this name.
pub fn variable_address(file: &File, name: &str) -> Result<Option<u64>, ElfError> {
    let headers = Headers::read(file)?;
    let mut found = None;
    for table in headers.tables.iter().filter(|table| table.dynamic) {
        let strings = read_range(file, "string table", table.strings)?;
        headers.each_symbol(file, table, |symbol| {
            let has_name = || wanted_name_at(&strings, symbol.name) == Some(name.as_bytes());
            if symbol.kind == SymbolKind::Object && has_name() {
                found = Some(symbol.address);
            }
        })?;
    }
    Ok(found)
}

/// Like [`name_at`]; also None for a name that is longer than any name that is searched for.
fn wanted_name_at(strings: &[u8], offset: u32) -> Option<&[u8]> {
    let end = usize::try_from(offset).ok()?.saturating_add(WANTED_BYTES_MAX);
    name_at(strings.get(..end).unwrap_or(strings), offset)
}

#[cfg(test)]
mod tests;
