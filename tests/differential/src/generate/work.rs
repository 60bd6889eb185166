//! Proposes a stream's work at random.

use super::Generator;
use crate::program::{Cell, Copy, Fill, HostCall, Kernel, Launch, Memory, Move, Work, Write};

impl Generator {
    /// Any work; a kernel without effect if there is no memory to use.
    pub(super) fn work(&mut self) -> Work {
        let nothing = Work::Kernel {
            kernel: Kernel::Nothing,
            by: self.launch(),
            to: Cell(crate::program::Buffer(0), 0),
            from: Cell(crate::program::Buffer(0), 0),
            key: 0,
        };
        self.some_work().unwrap_or(nothing)
    }

    fn launch(&mut self) -> Launch {
        match self.rng.u32(..17) {
            0..3 => Launch::Chevrons,
            3 => Launch::Plain,
            4 => Launch::Spt,
            5 => Launch::Cooperative,
            6 => Launch::Ext,
            7 | 8 => Launch::ModuleList,
            9 => Launch::ModuleCooperative,
            10 => Launch::Config,
            11 => Launch::ConfigCooperative,
            12 => Launch::DriverConfig,
            13 => Launch::SymbolFunction,
            14 => Launch::LibraryKernel,
            15 => Launch::DriverConfigCooperative,
            _ => Launch::ModuleBuffer,
        }
    }

    pub(super) fn kernel(&mut self, by: Launch) -> Option<Work> {
        let kernel = match self.rng.u32(..20) {
            0 => Kernel::Nothing,
            1..5 => Kernel::Wide,
            5..9 => Kernel::Many,
            _ => Kernel::Mix,
        };
        let (to, from) = (self.cell(Memory::is_device)?, self.cell(Memory::is_device)?);
        Some(Work::Kernel { kernel, by, to, from, key: self.rng.u32(..) })
    }

    fn some_work(&mut self) -> Option<Work> {
        let key = self.rng.u32(..);
        Some(match self.rng.u32(..100) {
            0..50 => {
                let by = self.launch();
                self.kernel(by)?
            }
            50 | 51 => {
                let array = self.cell(|memory| memory == Memory::Array)?;
                let host = self.cell(|memory| matches!(memory, Memory::Pinned | Memory::Pageable))?;
                let (to, from) = if self.rng.bool() { (array, host) } else { (host, array) };
                Work::Copy { by: Copy::DriverArray, to, from }
            }
            52..76 => {
                let by = match self.rng.u32(..20) {
                    0..3 => Copy::Async,
                    3 => Copy::Spt,
                    4 | 5 => Copy::Driver,
                    6 | 7 => Copy::Rows,
                    8 => Copy::WithStream,
                    9 | 10 => Copy::Box,
                    11 => Copy::DriverBox,
                    12 => Copy::DriverRows,
                    13 => Copy::Peer,
                    14 => Copy::PeerBox,
                    15 | 16 => Copy::Symbol,
                    17 => Copy::Batch,
                    18 => Copy::BatchBox,
                    _ => Copy::Sync,
                };
                let may_be_far = matches!(by, Copy::Async | Copy::Peer | Copy::PeerBox);
                let (to, from) = if may_be_far && self.chance(if by == Copy::Async { 15 } else { 60 }) {
                    (self.any_cell()?, self.any_cell()?)
                } else {
                    (self.cell(|_| true)?, self.cell(|_| true)?)
                };
                // Arrays are rare, and few functions accept them.
                let takes_arrays = matches!(
                    by,
                    Copy::Rows | Copy::Box | Copy::BatchBox | Copy::DriverBox | Copy::DriverRows
                );
                let array = self.cell(|memory| memory == Memory::Array).filter(|_| takes_arrays);
                let (to, from) = match (array, self.rng.u32(..3)) {
                    (Some(array), 0) => (array, from),
                    (Some(array), 1) => (to, array),
                    _ => (to, from),
                };
                Work::Copy { by, to, from }
            }
            76..88 => {
                let by = match self.rng.u32(..11) {
                    0..4 => Fill::Async,
                    4 => Fill::Words,
                    5 => Fill::Rows,
                    6 => Fill::Box,
                    7 => Fill::Bytes,
                    8 => Fill::HalfWords,
                    9 => Fill::DriverRows,
                    _ => Fill::Sync,
                };
                Work::Fill {
                    by,
                    to: self.cell(|m| m.is_device() && m != Memory::Pinned)?,
                    value: self.rng.u8(..),
                }
            }
            88..97 => {
                let by = if self.chance(70) { HostCall::Function } else { HostCall::Callback };
                Work::Host { by, to: self.cell(Memory::is_host)?, from: self.cell(Memory::is_host)?, key }
            }
            97 => {
                let by = match self.rng.u32(..4) {
                    0 => Move::Attach,
                    1 => Move::PrefetchTo,
                    _ => Move::Prefetch,
                };
                Work::Move { by, what: self.cell(|memory| memory == Memory::Managed)? }
            }
            _ => {
                let by = match self.rng.u32(..3) {
                    0 => Write::Value,
                    1 => Write::Wide,
                    _ => Write::Batch,
                };
                Work::WriteValue { by, to: self.cell(Memory::is_device)?, value: key }
            }
        })
    }
}
