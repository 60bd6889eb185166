//! Instructions of a kernel, decoded once.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::decode::{Instruction, Isa, decode};
use crate::fault::{Cause, Fault};
use crate::memory::Memory;

/// Dwords of a page of decoded instructions.
const PAGE: usize = 64;

type Page = [Option<Instruction>; PAGE];

/// Decoded instructions by address. They are kept for one kernel's run: code does not change meanwhile.
#[derive(Debug)]
pub(crate) struct Code {
    isa: Isa,
    pages: Vec<Page>,
    by_address: HashMap<u64, usize, RandomState>,
    /// The page that was used last.
    last: Option<(u64, usize)>,
}

impl Code {
    pub(crate) fn new(isa: Isa) -> Self {
        Self { isa, pages: Vec::new(), by_address: HashMap::default(), last: None }
    }

    /// The instruction at an address.
    pub(crate) fn at(&mut self, pc: u64, memory: &mut dyn Memory) -> Result<&Instruction, Fault> {
        let key = pc / (4 * PAGE as u64);
        let page = match self.last {
            Some((last, page)) if last == key => page,
            _ => self.page(key),
        };
        let slot = &mut self.pages[page][(pc / 4) as usize % PAGE];
        if slot.is_none() {
            *slot = Some(fetch(self.isa, pc, memory)?);
        }
        Ok(slot.as_ref().expect("it was just filled"))
    }

    fn page(&mut self, key: u64) -> usize {
        let page = *self.by_address.entry(key).or_insert_with(|| {
            self.pages.push([None; PAGE]);
            self.pages.len() - 1
        });
        self.last = Some((key, page));
        page
    }
}

fn fetch(isa: Isa, pc: u64, memory: &mut dyn Memory) -> Result<Instruction, Fault> {
    let fault = |instruction, cause| Fault { pc, instruction, cause };
    let first =
        memory.read_u32(pc).map_err(|error| fault("instruction fetch".into(), Cause::Memory(error)))?;
    // The last instruction of a page may be the last of memory.
    let second = memory.read_u32(pc.wrapping_add(4));
    let words = [first, *second.as_ref().unwrap_or(&0)];
    let words = if second.is_ok() { &words[..] } else { &words[..1] };
    decode(isa, words).map_err(|error| fault(format!("{first:#010x}"), Cause::Decode(error)))
}
