//! The unwind table of one file.

use std::fmt;

use xsched_abi::unwind::{PAGE_BITS, Row, Rule, search};

use crate::assemble::{Assembled, assemble};
use crate::elf::{Dialect, Segment, UnwindInfo};
use crate::error::Error;
use crate::frames::Frames;
use crate::image::Image;

/// Identifies a table by a hash of its input. Files with the same code layout and the same unwind information share a table,
/// whatever their paths, and no file can be taken for another because of its build id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableId(pub(crate) [u8; 16]);

/// The rules to find the caller at every instruction of a file.
///
/// Addresses are those of the ELF file; add [`bias`](Self::bias) for those of a process.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    pub(crate) id: TableId,
    pub(crate) segments: Vec<Segment>,
    pub(crate) first_page: u32,
    pub(crate) pages: Vec<u32>,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Builds the table of a file, without any cache.
    pub fn build(image: &Image) -> Result<Self, Error> {
        Self::of(&UnwindInfo::read(image)?)
    }

    pub(crate) fn of(info: &UnwindInfo) -> Result<Self, Error> {
        let Assembled { first_page, pages, rows } = assemble(Frames::collect(info)?)?;
        Ok(Self { id: TableId::of(info), segments: info.segments.clone(), first_page, pages, rows })
    }

    /// The identity of the table.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// All rows, sorted by address.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// For each page of 64 KiB from [`first_page`](Self::first_page) on, the index of its first row; then the number of rows.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The number of the first page: its first address divided by 64 KiB.
    pub fn first_page(&self) -> u32 {
        self.first_page
    }

    /// The difference between the addresses of a process and those of the file, if the process maps the file executable at
    /// `start`, from `file_offset` on. None if such a mapping contains no code of this file.
    pub fn bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.pages_contain(file_offset))?;
        let address = segment.address.wrapping_sub(segment.file_offset).wrapping_add(file_offset);
        Some(start.wrapping_sub(address))
    }

    /// The row for an address of the file. None outside the pages of all functions, which means [`Rule::Gap`].
    pub fn row_at(&self, address: u64) -> Option<Row> {
        let page = (address >> PAGE_BITS).checked_sub(u64::from(self.first_page))?;
        let page = usize::try_from(page).ok()?;
        let (&first, &end) = self.pages.get(page).zip(self.pages.get(page.checked_add(1)?))?;
        let row = |index: u32| self.rows.get(index as usize);
        let found = search(first, end, address as u16, |index| row(index).map(|row| row.pc_low));
        found.and_then(row).copied()
    }

    /// The number of rows with each rule.
    pub fn tally(&self) -> Vec<(Rule, usize)> {
        let mut tally: Vec<(Rule, usize)> = Vec::new();
        for row in &self.rows {
            match tally.iter_mut().find(|(rule, _)| *rule == row.rule()) {
                Some((_, count)) => *count += 1,
                None => tally.push((row.rule(), 1)),
            }
        }
        tally.sort_by_key(|&(rule, _)| rule as u8);
        tally
    }
}

impl TableId {
    pub(crate) fn of(info: &UnwindInfo) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(match info.dialect {
            Dialect::EhFrame => b"eh   ",
            Dialect::DebugFrame => b"debug",
        });
        hasher.update(&info.address.to_le_bytes());
        hasher.update(&(info.segments.len() as u64).to_le_bytes());
        for Segment { address, file_offset, bytes } in &info.segments {
            for number in [address, file_offset, bytes] {
                hasher.update(&number.to_le_bytes());
            }
        }
        hasher.update(&info.section);
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
