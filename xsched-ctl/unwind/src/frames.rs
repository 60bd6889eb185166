//! Reads the function entries (FDEs) of a section and collects their rules.

use std::collections::HashMap;

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, FrameDescriptionEntry,
    LittleEndian, UnwindContext, UnwindSection,
};
use xsched_abi::unwind::Row;

use crate::elf::{Dialect, UnwindInfo};
use crate::error::Error;
use crate::rule;

/// The most rules that are collected. libtorch's largest library has 2.3 million rows.
const RULES_MAX: usize = 1 << 24;
/// Bytes of instructions that are executed for each byte of the section. The instructions of a common entry (CIE) are
/// executed again for each of its functions; real common entries are shorter than the entries of functions.
const WORK_PER_BYTE: usize = 4;
/// Bytes of instructions that may be executed for a section of any size.
const WORK_FLOOR: usize = 1 << 16;

/// An unwind section in memory.
type Bytes<'data> = gimli::EndianSlice<'data, LittleEndian>;

/// A range of addresses with its rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The index of its first rule; the others follow, sorted.
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// A rule with the address at which it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedRule {
    pub(crate) begin: u64,
    pub(crate) row: Row,
}

/// The functions and rules of a section, in its order.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) functions: Vec<Function>,
    pub(crate) rules: Vec<PlacedRule>,
}

impl Frames {
    pub(crate) fn collect(info: &UnwindInfo) -> Result<Self, Error> {
        match info.dialect {
            Dialect::EhFrame => {
                let mut section = EhFrame::new(&info.section, LittleEndian);
                section.set_address_size(8);
                Self::of_section(info, &section, &BaseAddresses::default().set_eh_frame(info.address))
            }
            Dialect::DebugFrame => {
                let mut section = DebugFrame::new(&info.section, LittleEndian);
                section.set_address_size(8);
                Self::of_section(info, &section, &BaseAddresses::default())
            }
        }
    }

    fn of_section<'data, S>(
        info: &'data UnwindInfo,
        section: &S,
        bases: &BaseAddresses,
    ) -> Result<Self, Error>
    where
        S: UnwindSection<Bytes<'data>>,
        S::Offset: std::hash::Hash,
    {
        let mut frames = Self::default();
        let mut commons: HashMap<S::Offset, CommonInformationEntry<Bytes<'data>>> = HashMap::new();
        let mut context = UnwindContext::new();
        let mut work_left = WORK_FLOOR + WORK_PER_BYTE * info.section.len();
        let mut entries = section.entries(bases);
        while let Some(entry) = entries.next().map_err(Error::CorruptUnwindInfo)? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let function = partial.parse(|section, bases, offset| {
                if let Some(common) = commons.get(&offset) {
                    return Ok(common.clone());
                }
                let common = section.cie_from_offset(bases, offset)?;
                commons.insert(offset, common.clone());
                Ok(common)
            });
            let function = function.map_err(Error::CorruptUnwindInfo)?;
            work_left = work_left
                .checked_sub(function.entry_len() + function.cie().entry_len())
                .ok_or(Error::Corrupt("too many shared instructions"))?;
            frames.add(info, section, bases, &mut context, &function)?;
        }
        Ok(frames)
    }

    fn add<'data, S: UnwindSection<Bytes<'data>>>(
        &mut self,
        info: &UnwindInfo,
        section: &S,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
        function: &FrameDescriptionEntry<Bytes<'data>>,
    ) -> Result<(), Error> {
        let begin = function.initial_address();
        let end = begin.saturating_add(function.len());
        // Functions that the linker has discarded have address zero.
        if begin == end || !info.segments.iter().any(|segment| segment.contains(begin, end)) {
            return Ok(());
        }
        let first = self.rules.len();
        if self.rows(section, bases, context, function, end).is_err() {
            // An instruction that cannot be parsed may have changed any rule, and through the common entry also earlier ones.
            self.rules.truncate(first);
            self.rules.push(PlacedRule { begin, row: rule::UNSUPPORTED });
        }
        if self.rules.len() > RULES_MAX {
            return Err(Error::TooLarge { what: "unwind table (rows)", count: self.rules.len() as u64 });
        }
        let count = (self.rules.len() - first) as u32;
        self.functions.push(Function { begin, end, first: first as u32, count });
        Ok(())
    }

    fn rows<'data, S: UnwindSection<Bytes<'data>>>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
        function: &FrameDescriptionEntry<Bytes<'data>>,
        end: u64,
    ) -> Result<(), gimli::Error> {
        let encoding = function.cie().encoding();
        let first = self.rules.len();
        let mut rows = function.rows(section, bases, context)?;
        while let Some(row) = rows.next_row()? {
            if row.start_address() >= end || self.rules.len() > RULES_MAX {
                break;
            }
            if row.start_address() >= row.end_address() {
                continue;
            }
            let rule = rule::translate(row, section, encoding);
            if self.rules.len() == first || self.rules.last().is_none_or(|last| last.row != rule) {
                self.rules.push(PlacedRule { begin: row.start_address(), row: rule });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
