//! Walks stacks that programs could not walk.

use xsched_abi::chain::Replaced;
use xsched_abi::unwind::{Registers, Step, step};
use xsched_abi::{ChainEnd, Snapshot};
use xsched_symbols::Process;

use super::tables::{Known, Tables};

/// A stack to be walked.
pub(super) struct Copied {
    /// Its registers.
    pub(super) snapshot: Box<Snapshot>,
    /// Its bytes, from the stack pointer upwards.
    pub(super) bytes: Box<[u8]>,
}

/// The addresses of a walk, innermost first, each with whether a signal has interrupted there; and how it ended.
pub(super) type Walked = (Vec<(u64, bool)>, ChainEnd);

/// What a walk does where a table is still being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is made again later.
    Wait,
    /// It ends there.
    End,
}

impl Copied {
    /// Walks up to `depth` frames. None if a table is needed that is not there yet, and there is patience.
    pub(super) fn walk(
        &self,
        process: Option<&Process>,
        tables: &mut Tables,
        depth: usize,
        patience: Patience,
    ) -> Option<Walked> {
        let Snapshot { tgid, time_ns, rip, rsp, rbp, .. } = *self.snapshot;
        let (mut at, mut interrupted) = (Registers { rip, rsp, rbp }, false);
        let mut frames = vec![(rip, false)];
        let end = loop {
            if frames.len() >= depth {
                break ChainEnd::Depth;
            }
            // A return address may already belong to the next function.
            let address = at.rip.wrapping_sub(u64::from(!interrupted));
            let mapping = process.and_then(|process| process.code_at(address, time_ns));
            let Some(mapping) = mapping else { break ChainEnd::UnknownCode };
            let table = match tables.want(tgid, mapping) {
                Known::Table(table, _) => table,
                Known::Building if patience == Patience::Wait => return None,
                Known::Building | Known::Tableless => break ChainEnd::NoTable,
                Known::Generated => break ChainEnd::Generated,
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
            frames.push((at.rip, interrupted));
        };
        Some((frames, end))
    }

    /// The word at an address, or the return address where a probe has replaced it.
    fn word(&self, address: u64) -> Option<u64> {
        let count = self.snapshot.replaced_count as usize;
        let mut replaced = self.snapshot.replaced.iter().take(count);
        if let Some(Replaced { address, .. }) = replaced.find(|replaced| replaced.slot == address) {
            return Some(*address);
        }
        xsched_unwind::Snapshot { address: self.snapshot.rsp, bytes: &self.bytes }.word(address)
    }
}
