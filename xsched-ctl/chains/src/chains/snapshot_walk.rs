//! Walks stacks that the programs could not walk.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use xsched_abi::{
    ChainEnd, Snapshot,
    generated::{self, AddressKind, Surroundings},
    snapshot::{self, LEFT_OUT, Replaced},
    unwind::{Registers, Step, step},
};
use xsched_symbols::{Process, process_folder};
use xsched_unwind::Need;

use super::tables::{Known, Tables};

/// A stack to be walked.
pub(super) struct Copied {
    /// Its registers.
    pub(super) snapshot: Box<Snapshot>,
    /// The words of it that were copied.
    words: Box<[u64]>,
    /// Where each window's begin.
    windows: Box<[u32]>,
    so_far: SoFar,
}

/// As far as a walk has come.
struct SoFar {
    at: Registers,
    interrupted: bool,
    frames: Vec<(u64, bool)>,
}

/// The addresses of a walk, innermost first, each with whether a signal interrupted there; and how the walk ended.
pub(super) type Walked = (Vec<(u64, bool)>, ChainEnd);

/// What a walk does at a table that is still being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Wait,
    End,
}

impl Copied {
    pub(super) fn new(snapshot: Box<Snapshot>, words: Box<[u64]>) -> Self {
        let Snapshot { rip, rsp, rbp, .. } = *snapshot;
        let so_far =
            SoFar { at: Registers { rip, rsp, rbp }, interrupted: false, frames: vec![(rip, false)] };
        let windows = snapshot::windows(&words).collect();
        Self { snapshot, words, windows, so_far }
    }

    /// Walks up to `depth` frames. None if a needed table is missing and `patience` says to wait: the next call goes on from there.
    pub(super) fn walk(
        &mut self,
        process: Option<&Process>,
        tables: &mut Tables,
        depth: usize,
        patience: Patience,
    ) -> Option<Walked> {
        let Snapshot { tgid, time_ns, .. } = *self.snapshot;
        let SoFar { mut at, mut interrupted, ref frames } = self.so_far;
        let mut frames = frames.clone();
        let memory = Memory::of(tgid);
        let end = loop {
            if frames.len() >= depth {
                break ChainEnd::Depth;
            }
            // A return address may already belong to the next function.
            let address = at.rip.wrapping_sub(u64::from(!interrupted));
            let mapping = process.and_then(|process| process.code_at(address, time_ns));
            let Some(mapping) = mapping else { break ChainEnd::UnknownCode };
            let table = match tables.want(tgid, mapping, Need::Waiting) {
                Known::Generated => {
                    let around = &mut Around { copied: self, process, tables, memory: &memory };
                    let Some(caller) = generated::step(&at, around) else { break ChainEnd::Generated };
                    (at, interrupted) = (caller, false);
                    frames.push((at.rip, interrupted));
                    continue;
                }
                Known::Table(table) => table,
                Known::Building | Known::Opening if patience == Patience::Wait => {
                    self.so_far = SoFar { at, interrupted, frames };
                    return None;
                }
                Known::Building => break ChainEnd::NotReady,
                Known::Tableless => break ChainEnd::NoTable,
                Known::Gone | Known::Opening => break ChainEnd::Gone,
            };
            let bias = table.bias(mapping.start, mapping.file_offset);
            let row = bias.and_then(|bias| table.row_at(address.wrapping_sub(bias)));
            let Some(row) = row else { break ChainEnd::NoRule };
            (at, interrupted) = match step(&row, &at, |address| self.word(address)) {
                Step::Caller(registers) => (registers, false),
                Step::Interrupted(registers) => (registers, true),
                Step::End => break ChainEnd::Complete,
                Step::Stop(stop) => break stop.into(),
            };
            // A frame's return address is code, or zero.
            if at.rip == LEFT_OUT {
                break ChainEnd::Unreadable;
            }
            frames.push((at.rip, interrupted));
        };
        Some((frames, end))
    }

    /// The word at an address; where a probe has replaced a return address, the original.
    fn word(&self, address: u64) -> Option<u64> {
        let count = self.snapshot.replaced_count as usize;
        let mut replaced = self.snapshot.replaced.iter().take(count);
        if let Some(Replaced { address, .. }) = replaced.find(|replaced| replaced.slot == address) {
            return Some(*address);
        }
        self.snapshot.word(&self.words, &self.windows, address)
    }

    /// Requests the tables of all code that a word points into: a walk finds out one after the other which it needs, and those of large
    /// libraries take seconds.
    pub(super) fn expect_tables(&self, process: &Process, tables: &mut Tables) {
        let Snapshot { tgid, time_ns, .. } = *self.snapshot;
        let mut last = None;
        for word in &self.words {
            let mapping = process.code_at(word.wrapping_sub(1), time_ns);
            if let Some(mapping) =
                mapping.filter(|mapping| !last.is_some_and(|last| Arc::ptr_eq(last, mapping)))
            {
                tables.want(tgid, mapping, Need::Expected);
                last = Some(mapping);
            }
        }
    }

    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Snapshot>() + size_of_val(&*self.words)
    }
}

/// A process's memory, opened at the first read, which must happen before it ends.
struct Memory {
    pid: u32,
    file: OnceCell<Option<File>>,
}

impl Memory {
    fn of(pid: u32) -> Self {
        Self { pid, file: OnceCell::new() }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let file = self.file.get_or_init(|| File::open(process_folder(self.pid).join("mem")).ok());
        let mut word = [0; 8];
        file.as_ref()?.read_exact_at(&mut word, address).ok()?;
        Some(u64::from_le_bytes(word))
    }
}

/// What a step out of generated code reads: the stack as it was copied, and code as it is now.
struct Around<'a> {
    copied: &'a Copied,
    process: Option<&'a Process>,
    tables: &'a mut Tables,
    memory: &'a Memory,
}

impl Surroundings for Around<'_> {
    fn code(&mut self, address: u64) -> Option<u64> {
        self.memory.word(address)
    }

    fn stack(&mut self, address: u64) -> Option<u64> {
        self.copied.word(address)
    }

    fn kind(&mut self, address: u64) -> AddressKind {
        let Snapshot { tgid, time_ns, .. } = *self.copied.snapshot;
        match self.process.and_then(|process| process.code_at(address, time_ns)) {
            None => AddressKind::NoCode,
            Some(mapping) => match self.tables.look(tgid, mapping) {
                Known::Generated => AddressKind::Generated,
                Known::Table(..) | Known::Building | Known::Opening | Known::Tableless | Known::Gone => {
                    AddressKind::Code
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use xsched_symbols::{Processes, now_ns};
    use zerocopy::FromZeros as _;

    use super::*;

    #[test]
    fn a_chain_that_needs_a_table_too_early_is_not_counted_as_one_through_a_file_without_a_table() {
        let (pid, mut processes) = (std::process::id(), Processes::new());
        processes.scan(pid).unwrap();
        let process = processes.process(pid);
        let mut tables = Tables::without_programs();
        let mut snapshot = Box::new(Snapshot::new_zeroed());
        (snapshot.tgid, snapshot.time_ns) = (pid, now_ns());
        snapshot.rip = Tables::new as *const () as u64 + 1;
        let mut copied = Copied::new(snapshot, Box::default());
        assert!(copied.walk(process, &mut tables, 9, Patience::Wait).is_none());
        let (frames, end) = copied.walk(process, &mut tables, 9, Patience::End).unwrap();
        assert_eq!((frames.len(), end), (1, ChainEnd::NotReady));
        let again = copied.walk(process, &mut tables, 9, Patience::End).unwrap();
        assert_eq!(again, (frames, end), "what is found too early does not count");
    }

    #[test]
    fn tables_of_all_code_that_a_copy_points_into_are_expected_together() {
        let (pid, mut processes) = (std::process::id(), Processes::new());
        processes.scan(pid).unwrap();
        let process = processes.process(pid).unwrap();
        let mut tables = Tables::without_programs();
        let words = [Tables::new as *const () as u64 + 1, 7, libc::getpid as *const () as u64 + 1];
        let mut snapshot = Box::new(Snapshot::new_zeroed());
        (snapshot.tgid, snapshot.time_ns) = (pid, now_ns());
        Copied::new(snapshot, words.into()).expect_tables(process, &mut tables);
        assert_eq!(tables.requested(), 2, "of this program and of the C library");
    }
}
