//! Evaluates DWARF's unwind rules one by one with gimli: slow, and independent of our rules.

use gimli::{
    CfaRule, EhFrame, EhFrameHdr, EvaluationResult, Location, Piece, RegisterRule, UnwindExpression,
    UnwindSection as _, UnwindTableRow, Value, X86_64,
};
use xsched_abi::unwind::Registers;

use crate::elf::Section;

type Bytes<'data> = gimli::EndianSlice<'data, gimli::LittleEndian>;

/// The caller that a row leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Is(Registers),
    /// The return address is undefined.
    None,
    /// The caller depends on registers that a walk does not know, or has no rule.
    Unknowable,
}

/// One row applied to one frame.
pub(crate) struct Straight<'row, 'data, M> {
    pub(crate) row: &'row UnwindTableRow<usize>,
    pub(crate) section: &'row EhFrame<Bytes<'data>>,
    pub(crate) encoding: gimli::Encoding,
    pub(crate) at: Registers,
    pub(crate) memory: M,
}

impl<M: Fn(u64) -> u64> Straight<'_, '_, M> {
    pub(crate) fn caller(&self) -> Caller {
        if self.row.register(X86_64::RA) == Some(RegisterRule::Undefined) {
            return Caller::None;
        }
        let caller = || {
            let cfa = match self.row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => {
                    self.register(*register)?.wrapping_add_signed(*offset)
                }
                CfaRule::Expression(expression) => self.evaluate(expression, None)?,
            };
            let rip = self.value(X86_64::RA, cfa, None)?;
            let rsp = self.value(X86_64::RSP, cfa, Some(cfa))?;
            let rbp = self.value(X86_64::RBP, cfa, Some(self.at.rbp))?;
            Some(Registers { rip, rsp, rbp })
        };
        caller().map_or(Caller::Unknowable, Caller::Is)
    }

    fn register(&self, register: gimli::Register) -> Option<u64> {
        match register {
            X86_64::RA => Some(self.at.rip),
            X86_64::RSP => Some(self.at.rsp),
            X86_64::RBP => Some(self.at.rbp),
            _ => None,
        }
    }

    /// The caller's value of a register; `unset` if there is no rule for it.
    fn value(&self, register: gimli::Register, cfa: u64, unset: Option<u64>) -> Option<u64> {
        match self.row.register(register) {
            None => unset,
            Some(RegisterRule::SameValue) => self.register(register),
            Some(RegisterRule::Offset(offset)) => Some((self.memory)(cfa.wrapping_add_signed(offset))),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => self.register(other),
            Some(RegisterRule::Expression(address)) => {
                Some((self.memory)(self.evaluate(&address, Some(cfa))?))
            }
            Some(RegisterRule::ValExpression(value)) => self.evaluate(&value, Some(cfa)),
            Some(_) => None,
        }
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, cfa: Option<u64>) -> Option<u64> {
        let expression = expression.get(self.section).expect("an expression inside of its section");
        let mut evaluation = expression.evaluation(self.encoding);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate().expect("a sound expression");
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.register(register)?))
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic((self.memory)(address)))
                }
                other => panic!("an expression wants {other:?}"),
            }
            .expect("a sound expression");
        }
        match evaluation.as_result() {
            [Piece { location: Location::Address { address }, .. }] => Some(*address),
            other => panic!("an expression gives {other:?}"),
        }
    }
}

/// The caller of a frame at a file's address, found through the search table of `.eh_frame_hdr`.
pub(crate) fn caller_at(
    eh_frame: &Section,
    eh_frame_hdr: &Section,
    address: u64,
    at: Registers,
    memory: impl Fn(u64) -> u64,
) -> Caller {
    let section = EhFrame::new(&eh_frame.bytes, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default()
        .set_eh_frame(eh_frame.addresses.start)
        .set_eh_frame_hdr(eh_frame_hdr.addresses.start);
    let header =
        EhFrameHdr::new(&eh_frame_hdr.bytes, gimli::LittleEndian).parse(&bases, 8).expect("a sound header");
    let table = header.table().expect("a search table");
    let function = table.fde_for_address(&section, &bases, address, EhFrame::cie_from_offset);
    let function = function.expect("a function at this address");
    let encoding = function.cie().encoding();
    let mut context = gimli::UnwindContext::new();
    let row = function
        .unwind_info_for_address(&section, &bases, &mut context, address)
        .expect("a row for this address");
    Straight { row, section: &section, encoding, at, memory }.caller()
}

/// Calls `each` with every row, and its encoding, of each `nth` function of a section.
pub(crate) fn each_row(
    bytes: &[u8],
    address: u64,
    nth: usize,
    mut each: impl FnMut(&UnwindTableRow<usize>, &EhFrame<Bytes<'_>>, gimli::Encoding),
) {
    let section = EhFrame::new(bytes, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(address);
    let mut context = gimli::UnwindContext::new();
    let mut entries = section.entries(&bases);
    let mut functions = 0;
    while let Some(entry) = entries.next().expect("a sound section") {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        functions += 1;
        if functions % nth != 0 {
            continue;
        }
        let function = partial.parse(EhFrame::cie_from_offset).expect("a sound function");
        let encoding = function.cie().encoding();
        let mut rows = function.rows(&section, &bases, &mut context).expect("a sound common entry");
        while let Some(row) = rows.next_row().expect("a sound row") {
            if row.start_address() < row.end_address() {
                each(row, &section, encoding);
            }
        }
    }
}
