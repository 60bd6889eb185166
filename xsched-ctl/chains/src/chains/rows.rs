//! Unwind tables in the kernel.
//!
//! The rows of one page (64 KiB of code) lie in one chunk, so that a search reads only that. Pages are appended to the
//! newest chunk. A full chunk is never written again.

use xsched_abi::{
    chain::{CHUNK_BITS, CHUNK_ROWS, CHUNKS_MAX, PAGES_MAX, Page},
    unwind::Row,
};
use xsched_bpf::{BpfError, Shared};
use xsched_unwind::Table;

use super::ranges::Ranges;
use crate::maps::ChainMaps;

/// The tables in the programs' maps.
pub(super) struct Rows {
    pages: Ranges,
    chunk_count: u32,
    /// The newest chunk, and how many of its rows are used.
    open: Option<(Shared<Row>, u32)>,
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
    pub(super) fn new() -> Self {
        Self { pages: Ranges::new(PAGES_MAX), chunk_count: 0, open: None }
    }

    /// Writes a table.
    pub(super) fn load(&mut self, maps: &mut ChainMaps, table: &Table) -> Result<Loaded, LoadError> {
        let full = || LoadError::Full { rows: table.rows().len() };
        let page_count = table.pages().len().saturating_sub(1) as u32;
        let range = self.pages.take(page_count).ok_or_else(full)?;
        let mut pages = Vec::with_capacity(page_count as usize);
        for bounds in table.pages().windows(2) {
            let rows = &table.rows()[bounds[0] as usize..bounds[1] as usize];
            match self.write(maps, rows) {
                Ok(row) => pages.push(Page { row, count: rows.len() as u32 }),
                Err(error) => {
                    self.pages.give_back(range);
                    return Err(error.unwrap_or_else(full));
                }
            }
        }
        maps.write_pages(range.start, &pages);
        Ok(Loaded { pages: range.start, page_first: table.first_page(), page_count })
    }

    /// Writes the rows of one page; returns the index of the first. `Err(None)` if there is no space.
    fn write(&mut self, maps: &mut ChainMaps, rows: &[Row]) -> Result<u32, Option<LoadError>> {
        let count = rows.len() as u32;
        if self.open.as_ref().is_none_or(|(_, used)| CHUNK_ROWS - used < count) {
            if self.chunk_count == CHUNKS_MAX {
                return Err(None);
            }
            let chunk = maps.add_chunk(self.chunk_count).map_err(|error| Some(error.into()))?;
            self.open = Some((chunk, 0));
            self.chunk_count += 1;
        }
        let Some((chunk, used)) = &mut self.open else { return Err(None) };
        chunk.write(*used as usize, rows);
        let row = ((self.chunk_count - 1) << CHUNK_BITS) + *used;
        *used += count;
        Ok(row)
    }
}
