//! Unwind tables in the kernel.
//!
//! The rows of one page (64 KiB of code) lie in one chunk, so that a search reads only that. Pages are appended to the
//! newest chunk. A full chunk is never written again.

use xsched_abi::chain::{CHUNK_BITS, CHUNK_ROWS, CHUNKS_MAX, PAGES_MAX, Page};
use xsched_bpf::BpfError;
use xsched_unwind::Table;

use super::ranges::Ranges;
use crate::maps::{Chunk, RowMaps};

/// The tables in the programs' maps.
pub(super) struct Rows {
    maps: RowMaps,
    pages: Ranges,
    /// The newest chunk that programs see.
    open: Option<Chunk>,
    end: End,
}

/// Where rows end.
#[derive(Clone, Copy)]
struct End {
    chunk_count: u32,
    /// Rows of the newest chunk.
    used: u32,
}

/// The location of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// Its first page in the `PAGES` map.
    pub(super) pages: u32,
    /// The page of the file's addresses that this one is for.
    pub(super) page_first: u32,
    pub(super) page_count: u32,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("no space in the unwind tables for {rows} more rows")]
    Full { rows: usize },
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

impl Rows {
    pub(super) fn new(maps: RowMaps) -> Self {
        Self { maps, pages: Ranges::new(PAGES_MAX), open: None, end: End { chunk_count: 0, used: 0 } }
    }

    /// Writes a table. The kernel may take milliseconds.
    pub(super) fn load(&mut self, table: &Table) -> Result<Loaded, LoadError> {
        let page_count = table.pages().len().saturating_sub(1) as u32;
        let full = LoadError::Full { rows: table.rows().len() };
        let Some(range) = self.pages.take(page_count) else { return Err(full) };
        let end = self.end;
        match self.append(table) {
            Ok(pages) => {
                self.maps.write_pages(range.start, &pages);
                Ok(Loaded { pages: range.start, page_first: table.first_page(), page_count })
            }
            // No page refers to what was appended.
            Err(error) => {
                self.end = end;
                self.pages.give_back(range);
                Err(error)
            }
        }
    }

    /// Appends the rows of a table; returns where those of each page are.
    fn append(&mut self, table: &Table) -> Result<Vec<Page>, LoadError> {
        let first = self.end.chunk_count;
        let (mut new, mut pages) = (Vec::new(), Vec::with_capacity(table.pages().len()));
        for bounds in table.pages().windows(2) {
            let rows = &table.rows()[bounds[0] as usize..bounds[1] as usize];
            let count = rows.len() as u32;
            if self.end.chunk_count == 0 || CHUNK_ROWS - self.end.used < count {
                if self.end.chunk_count == CHUNKS_MAX {
                    return Err(LoadError::Full { rows: table.rows().len() });
                }
                new.push(RowMaps::create_chunk()?);
                self.end = End { chunk_count: self.end.chunk_count + 1, used: 0 };
            }
            if let Some(chunk) = new.last_mut().or(self.open.as_mut()) {
                chunk.rows.write(self.end.used as usize, rows);
            }
            pages.push(Page { row: ((self.end.chunk_count - 1) << CHUNK_BITS) + self.end.used, count });
            self.end.used += count;
        }
        self.maps.insert_chunks(first, &new)?;
        if let Some(newest) = new.pop() {
            self.open = Some(newest);
        }
        Ok(pages)
    }
}
