//! The code mappings of each process, as the programs see them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use xsched_abi::{
    Code, CodeState, Space,
    chain::{self, MAPPINGS_BITS, MAPPINGS_MAX},
};
use xsched_symbols::{Backing, Mapping, Process, now_ns};

use super::loader::Place;
use super::ranges::Ranges;
use super::tables::{Known, Tables};
use crate::maps::ProcessMaps;

/// Most mappings of one process that the programs get.
const PROCESS_MAPPINGS_MAX: usize = 1 << MAPPINGS_BITS;

/// How long a replaced list remains unchanged. A child that was forked just before uses its parent's list until it gets
/// its own, which takes tens of milliseconds.
const HELD_NS: u64 = 1_000_000_000;

/// The processes of which stacks are walked.
pub(super) struct Spaces {
    processes: HashMap<u32, Told>,
    free: Ranges,
    generation: u64,
    version: u64,
    /// Processes for which there was no space.
    refused: u64,
}

/// What the programs know about a process.
struct Told {
    generation: u64,
    elements: Range<u32>,
    pieces: Vec<Piece>,
}

type Piece = (Range<u64>, Arc<Mapping>);

impl Spaces {
    pub(super) fn new() -> Self {
        Self {
            processes: HashMap::new(),
            free: Ranges::new(MAPPINGS_MAX),
            generation: 0,
            version: 0,
            refused: 0,
        }
    }

    pub(super) fn contains(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    pub(super) fn generation(&self, pid: u32) -> Option<u64> {
        self.processes.get(&pid).map(|told| told.generation)
    }

    /// Gives the programs a process's mappings, complete up to `seen_ns`. With `renew`, chains that were sent before
    /// are sent again.
    pub(super) fn tell(
        &mut self,
        maps: &mut ProcessMaps,
        tables: &mut Tables,
        process: &Process,
        seen_ns: u64,
        renew: bool,
    ) {
        let pid = process.pid();
        let pieces = code(process);
        let elements: Vec<Code> = pieces.iter().map(|piece| element(tables, pid, piece)).collect();
        let before = self.processes.get(&pid);
        // All earlier mappings still exist, so every address means the same as before.
        let is_superset = |told: &Told| told.pieces.iter().all(|old| contains(&pieces, old));
        let generation = if let Some(told) = before.filter(|told| !renew && is_superset(told)) {
            told.generation
        } else {
            self.generation += 1;
            self.generation
        };
        self.free.release(seen_ns.saturating_sub(HELD_NS));
        let Some(range) = self.free.take(elements.len() as u32) else {
            self.refused += u64::from(!self.processes.contains_key(&pid));
            self.forget(maps, pid);
            return;
        };
        maps.write_mappings(range.start, &elements);
        self.version += 1;
        let space = Space {
            generation,
            version: self.version,
            seen_ns,
            first: range.start,
            count: elements.len() as u32,
            ranges: ranges(&pieces),
        };
        if let Err(error) = maps.set_space(pid, &space) {
            tracing::debug!("process {pid}: {error}");
            self.refused += 1;
            self.free.give_back(range);
            self.forget(maps, pid);
            return;
        }
        if let Some(told) = self.processes.insert(pid, Told { generation, elements: range, pieces }) {
            self.free.hold(told.elements, now_ns());
        }
    }

    pub(super) fn forget(&mut self, maps: &mut ProcessMaps, pid: u32) {
        maps.remove_space(pid);
        if let Some(told) = self.processes.remove(&pid) {
            self.free.hold(told.elements, now_ns());
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// The code that walks may pass through.
fn code(process: &Process) -> Vec<Piece> {
    process
        .code()
        .filter(|(_, mapping)| !matches!(mapping.backing, Backing::Uprobes | Backing::Special))
        .map(|(range, mapping)| (range, Arc::clone(mapping)))
        .take(PROCESS_MAPPINGS_MAX)
        .collect()
}

/// Whether `pieces`, in order of address, has all of `wanted`.
fn contains(pieces: &[Piece], (range, mapping): &Piece) -> bool {
    let next = pieces.partition_point(|(piece, _)| piece.start <= range.start);
    next.checked_sub(1)
        .and_then(|index| pieces.get(index))
        .is_some_and(|(piece, other)| piece.end >= range.end && Arc::ptr_eq(mapping, other))
}

fn element(tables: &mut Tables, pid: u32, (range, mapping): &Piece) -> Code {
    let plain = Code { start: range.start, end: range.end, ..Code::default() };
    let with_state = |state: CodeState| Code { state: state as u32, ..plain };
    match tables.look(pid, mapping) {
        Known::Table(table) => match (tables.place(&table), table.bias(mapping.start, mapping.file_offset)) {
            (Place::There(loaded), Some(bias)) => Code {
                bias,
                pages: loaded.pages,
                page_first: loaded.page_first,
                page_count: loaded.page_count,
                ..with_state(CodeState::Tabled)
            },
            (Place::There(_), None) => with_state(CodeState::Tableless),
            // User space walks for the programs: until they have the table, or because there was no space for it.
            (Place::Coming | Place::Nowhere, _) => with_state(CodeState::Wanted),
        },
        Known::Building | Known::Opening => with_state(CodeState::Wanted),
        Known::Tableless | Known::Gone => with_state(CodeState::Tableless),
        Known::Generated => with_state(CodeState::Generated),
    }
}

/// Two ranges around all of it, separated by the widest gap: programs lie far below their libraries.
fn ranges(pieces: &[Piece]) -> [chain::Range; 2] {
    let around = |pieces: &[Piece]| {
        let start = pieces.first().map_or(0, |(range, _)| range.start);
        chain::Range { start, end: pieces.last().map_or(start, |(range, _)| range.end) }
    };
    let widest = (1..pieces.len()).max_by_key(|&index| pieces[index].0.start - pieces[index - 1].0.end);
    let (low, high) = pieces.split_at(widest.unwrap_or(pieces.len()));
    [around(low), around(high)]
}
