//! The format of a cache entry.
//!
//! ```text
//! Header    fixed size
//! segments  3 u64 each
//! pages     u32 each
//! rows      8 bytes each
//! ```
//!
//! Native byte order: the tables are for x86-64 only.

use xsched_abi::unwind::Row;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::elf::Segment;
use crate::table::{Table, TableId};

const MAGIC: [u8; 8] = *b"xsunwind";
/// Changes whenever the layout, the meaning of a row, or the translation changes.
const VERSION: u32 = 1;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u32,
    first_page: u32,
    segment_count: u64,
    page_count: u64,
    row_count: u64,
    id: [u8; 16],
    /// BLAKE3 of the whole entry with this field zero.
    checksum: [u8; 32],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StoredSegment {
    address: u64,
    file_offset: u64,
    bytes: u64,
}

pub(super) fn encode(table: &Table) -> Vec<u8> {
    let header = Header {
        magic: MAGIC,
        version: VERSION,
        first_page: table.first_page,
        segment_count: table.segments.len() as u64,
        page_count: table.pages.len() as u64,
        row_count: table.rows.len() as u64,
        id: table.id.0,
        checksum: [0; 32],
    };
    let mut bytes = header.as_bytes().to_vec();
    for &Segment { address, file_offset, bytes: size } in &table.segments {
        bytes.extend_from_slice(StoredSegment { address, file_offset, bytes: size }.as_bytes());
    }
    bytes.extend_from_slice(table.pages.as_bytes());
    bytes.extend_from_slice(table.rows.as_bytes());
    let checksum = *blake3::hash(&bytes).as_bytes();
    bytes[..size_of::<Header>()].copy_from_slice(Header { checksum, ..header }.as_bytes());
    bytes
}

/// The table in an entry, or what is wrong with the entry.
pub(super) fn decode(bytes: &[u8], id: TableId) -> Result<Table, &'static str> {
    let (header, rest) = Header::read_from_prefix(bytes).map_err(|_| "cut off")?;
    if header.magic != MAGIC || header.version != VERSION {
        return Err("of another version");
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(Header { checksum: [0; 32], ..header }.as_bytes()).update(rest);
    if hasher.finalize() != header.checksum {
        return Err("damaged");
    }
    if header.id != id.0 {
        return Err("built from other unwind information");
    }
    let (segments, rest) = take::<StoredSegment>(rest, header.segment_count).ok_or("inconsistent")?;
    let (pages, rest) = take::<u32>(rest, header.page_count).ok_or("inconsistent")?;
    let (rows, rest) = take::<Row>(rest, header.row_count).ok_or("inconsistent")?;
    if !rest.is_empty() {
        return Err("inconsistent");
    }
    let segments = segments
        .into_iter()
        .map(|StoredSegment { address, file_offset, bytes }| Segment { address, file_offset, bytes })
        .collect();
    Ok(Table { id, segments, first_page: header.first_page, pages, rows })
}

fn take<T: FromBytes + IntoBytes + Immutable + Clone>(bytes: &[u8], count: u64) -> Option<(Vec<T>, &[u8])> {
    let count = usize::try_from(count).ok()?;
    let (taken, rest) = bytes.split_at_checked(count.checked_mul(size_of::<T>())?)?;
    let mut values = vec![T::new_zeroed(); count];
    values.as_mut_bytes().copy_from_slice(taken);
    Some((values, rest))
}

#[cfg(test)]
mod tests {
    use xsched_abi::unwind::{RBP_UNCHANGED, Rule};

    use super::*;

    fn table() -> Table {
        Table {
            id: TableId([7; 16]),
            segments: vec![Segment { address: 0x1000, file_offset: 0x1000, bytes: 0x500 }],
            first_page: 0,
            pages: vec![0, 2],
            rows: vec![Row::new(0, Rule::Gap, 0, 0), Row::new(0x1000, Rule::Rsp, 8, RBP_UNCHANGED)],
        }
    }

    #[test]
    fn a_table_round_trips() {
        assert_eq!(decode(&encode(&table()), TableId([7; 16])), Ok(table()));
    }

    #[test]
    fn an_entry_for_another_table_is_refused() {
        assert_eq!(decode(&encode(&table()), TableId([8; 16])), Err("built from other unwind information"));
    }

    #[test]
    fn every_damaged_bit_and_every_lost_byte_is_detected() {
        let sound = encode(&table());
        for bit in 0..sound.len() * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, TableId([7; 16])).is_err(), "bit {bit}");
        }
        for length in 0..sound.len() {
            assert!(decode(&sound[..length], TableId([7; 16])).is_err(), "{length} bytes");
        }
        assert!(decode(&[sound.as_slice(), &[0]].concat(), TableId([7; 16])).is_err());
    }
}
