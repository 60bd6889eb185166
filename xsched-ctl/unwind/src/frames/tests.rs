use xsched_abi::unwind::{RBP_UNCHANGED, Rule};

use super::*;
use crate::elf::Segment;
use crate::table::Table;

const CODE: u64 = 0x10_0000;
const CODE_BYTES: u64 = 0x10_0000;

/// Opcodes of call frame instructions.
mod cfa {
    pub(super) const ADVANCE: u8 = 0x40;
    pub(super) const OFFSET: u8 = 0x80;
    pub(super) const UNDEFINED: u8 = 0x07;
    pub(super) const SAME_VALUE: u8 = 0x08;
    pub(super) const DEF_CFA: u8 = 0x0c;
    pub(super) const DEF_CFA_OFFSET: u8 = 0x0e;
    pub(super) const DEF_CFA_EXPRESSION: u8 = 0x0f;
    pub(super) const EXPRESSION: u8 = 0x10;
    pub(super) const VAL_OFFSET: u8 = 0x14;
}

const RBP: u8 = 6;
const RSP: u8 = 7;
const R10: u8 = 10;
const RA: u8 = 16;
/// DW_OP_breg6 and DW_OP_breg7: a register and a signed offset.
const BREG_RBP: u8 = 0x76;
const BREG_RSP: u8 = 0x77;
const DEREF: u8 = 0x06;

/// A section in the form that compilers write.
struct Section {
    dialect: Dialect,
    bytes: Vec<u8>,
}

impl Section {
    /// Begins with a common entry: `CFA = rsp + 8`, return address at `CFA - 8`, then `more` instructions.
    fn new(dialect: Dialect, more: &[u8]) -> Self {
        let mut section = Self { dialect, bytes: Vec::new() };
        let id: u32 = if dialect == Dialect::EhFrame { 0 } else { u32::MAX };
        // Version 1, no augmentation, code alignment 1, data alignment -8, return address in column 16.
        let mut body = vec![1, 0, 1, 0x78, RA];
        body.extend_from_slice(&[cfa::DEF_CFA, RSP, 8, cfa::OFFSET | RA, 1]);
        body.extend_from_slice(more);
        section.entry(id, &body);
        section
    }

    fn function(&mut self, begin: u64, bytes: u64, instructions: &[u8]) -> &mut Self {
        let common = if self.dialect == Dialect::EhFrame { self.bytes.len() as u32 + 4 } else { 0 };
        let mut body = [begin.to_le_bytes(), bytes.to_le_bytes()].concat();
        body.extend_from_slice(instructions);
        self.entry(common, &body);
        self
    }

    fn entry(&mut self, id: u32, body: &[u8]) {
        let padding = body.len().wrapping_neg() % 8 + 4;
        self.bytes.extend_from_slice(&((4 + body.len() + padding) as u32).to_le_bytes());
        self.bytes.extend_from_slice(&id.to_le_bytes());
        self.bytes.extend_from_slice(body);
        self.bytes.resize(self.bytes.len() + padding, 0);
    }

    fn table(&self) -> Result<Table, Error> {
        Table::of(&UnwindInfo {
            dialect: self.dialect,
            address: 0x1000,
            section: self.bytes.clone(),
            segments: vec![Segment { address: CODE, file_offset: CODE, bytes: CODE_BYTES }],
            build_id: Vec::new(),
        })
    }
}

/// The rule of a function with these instructions.
fn rule_of(instructions: &[u8]) -> Row {
    let [eh_frame, debug_frame] = [Dialect::EhFrame, Dialect::DebugFrame].map(|dialect| {
        let table = Section::new(dialect, &[]).function(CODE, 16, instructions).table().unwrap();
        table.row_at(CODE + 15).unwrap()
    });
    assert_eq!(eh_frame, debug_frame);
    Row { pc_low: 0, ..eh_frame }
}

fn expression(register: u8, operations: &[u8]) -> Vec<u8> {
    [&[cfa::EXPRESSION, register, operations.len() as u8], operations].concat()
}

fn cfa_expression(operations: &[u8]) -> Vec<u8> {
    [&[cfa::DEF_CFA_EXPRESSION, operations.len() as u8], operations].concat()
}

#[test]
fn frames_at_fixed_offsets() {
    assert_eq!(rule_of(&[]), Row::new(0, Rule::Rsp, 8, RBP_UNCHANGED));
    assert_eq!(rule_of(&[cfa::DEF_CFA_OFFSET, 48]), Row::new(0, Rule::Rsp, 48, RBP_UNCHANGED));
    let saved = [cfa::DEF_CFA_OFFSET, 16, cfa::OFFSET | RBP, 2];
    assert_eq!(rule_of(&saved), Row::new(0, Rule::Rsp, 16, -2));
    let framed = [&saved[..], &[cfa::DEF_CFA, RBP, 16]].concat();
    assert_eq!(rule_of(&framed), Row::new(0, Rule::Rbp, 16, -2));
    assert_eq!(
        rule_of(&[&saved[..], &[cfa::SAME_VALUE, RBP]].concat()),
        Row::new(0, Rule::Rsp, 16, RBP_UNCHANGED)
    );
}

#[test]
fn a_linkage_table_entry() {
    let entry = |pushed_from: u8| {
        cfa_expression(&[BREG_RSP, 8, 0x80, 0, 0x3f, 0x1a, 0x30 + pushed_from, 0x2a, 0x33, 0x24, 0x22])
    };
    assert_eq!(rule_of(&entry(11)), Row::new(0, Rule::Plt, 11, RBP_UNCHANGED));
    assert_eq!(rule_of(&entry(6)), Row::new(0, Rule::Plt, 6, RBP_UNCHANGED));
    // The same with one operation more.
    let mut other = entry(11);
    other[1] += 1;
    other.push(0x20);
    assert_eq!(rule_of(&other).rule(), Rule::Unsupported);
}

#[test]
fn a_realigned_frame() {
    // rbp - 8: sleb128 0x78.
    let rules = [cfa_expression(&[BREG_RBP, 0x78, DEREF]), expression(RBP, &[BREG_RBP, 0])].concat();
    assert_eq!(rule_of(&rules), Row::new(0, Rule::RbpDeref, -8, 0));
    let unchanged = cfa_expression(&[BREG_RBP, 0x78, DEREF]);
    assert_eq!(rule_of(&unchanged), Row::new(0, Rule::RbpDeref, -8, RBP_UNCHANGED));
    // If the frame address is itself read from memory, the offset of rbp cannot be computed.
    let from_cfa = [cfa_expression(&[BREG_RBP, 0x78, DEREF]), vec![cfa::OFFSET | RBP, 2]].concat();
    assert_eq!(rule_of(&from_cfa).rule(), Rule::Unsupported);
}

#[test]
fn a_signal_frame() {
    // rsp + 160, rsp + 168, rsp + 120 as sleb128.
    let cfa = cfa_expression(&[BREG_RSP, 0xa0, 0x01, DEREF]);
    let rip = expression(RA, &[BREG_RSP, 0xa8, 0x01]);
    let rbp = expression(RBP, &[BREG_RSP, 0xf8, 0x00]);
    let whole = [cfa.clone(), rip.clone(), rbp.clone()].concat();
    assert_eq!(rule_of(&whole), Row::new(0, Rule::Signal, 0, 0));
    for partial in
        [[cfa.clone(), rip.clone()].concat(), [rip.clone(), rbp.clone()].concat(), [cfa, rbp].concat()]
    {
        assert_eq!(rule_of(&partial).rule(), Rule::Unsupported);
    }
    // Each address is wrong by eight bytes: the first byte of each offset is changed.
    for byte in [3, 10, 16] {
        let mut other = whole.clone();
        other[byte] ^= 8;
        assert_eq!(rule_of(&other).rule(), Rule::Unsupported, "byte {byte}");
    }
}

#[test]
fn an_undefined_return_address_is_the_end() {
    assert_eq!(rule_of(&[cfa::UNDEFINED, RA]).rule(), Rule::End);
}

#[test]
fn addresses_relative_to_the_same_register_become_relative_to_the_frame_address() {
    let from_rsp = [&[cfa::DEF_CFA_OFFSET, 32], &expression(RBP, &[BREG_RSP, 8])[..]].concat();
    assert_eq!(rule_of(&from_rsp), Row::new(0, Rule::Rsp, 32, -3));
    let from_rbp = [&[cfa::DEF_CFA, RBP, 24], &expression(RBP, &[BREG_RBP, 8])[..]].concat();
    assert_eq!(rule_of(&from_rbp), Row::new(0, Rule::Rbp, 24, -2));
    let mixed = [&[cfa::DEF_CFA, RBP, 24], &expression(RBP, &[BREG_RSP, 8])[..]].concat();
    assert_eq!(rule_of(&mixed).rule(), Rule::Unsupported);
}

#[test]
fn inexpressible_rules_are_unsupported() {
    let cases: [(&str, &[u8]); 8] = [
        ("frame address in another register", &[cfa::DEF_CFA, R10, 0]),
        ("return address elsewhere", &[cfa::OFFSET | RA, 2]),
        ("return address of no rule", &[cfa::SAME_VALUE, RA]),
        ("rbp is lost", &[cfa::UNDEFINED, RBP]),
        ("rbp is a sum", &[cfa::VAL_OFFSET, RBP, 2]),
        ("rbp too far away", &[cfa::OFFSET | RBP, 0x80, 0x01]),
        ("an expression of another register", &[cfa::DEF_CFA_EXPRESSION, 2, 0x7a, 0]),
        ("a frame address of rsp's", &[cfa::DEF_CFA_EXPRESSION, 3, BREG_RSP, 8, DEREF]),
    ];
    for (what, instructions) in cases {
        assert_eq!(rule_of(instructions).rule(), Rule::Unsupported, "{what}");
    }
    // The largest offset of rbp that fits.
    assert_eq!(rule_of(&[cfa::OFFSET | RBP, 127]).rbp, -127);
}

#[test]
fn rules_are_valid_from_their_change_on() {
    let pushes = [cfa::ADVANCE | 1, cfa::DEF_CFA_OFFSET, 16, cfa::ADVANCE | 3, cfa::DEF_CFA_OFFSET, 24];
    let table = Section::new(Dialect::EhFrame, &[]).function(CODE, 16, &pushes).table().unwrap();
    let offsets: Vec<i32> = (0..16).map(|byte| table.row_at(CODE + byte).unwrap().offset).collect();
    assert_eq!(offsets, [8, 16, 16, 16, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24]);
    assert_eq!(table.row_at(CODE + 16).unwrap().rule(), Rule::Gap);
    assert_eq!(table.row_at(CODE - 1), None);
}

#[test]
fn rules_beyond_their_function_and_discarded_functions_are_left_out() {
    let runs_on = [cfa::ADVANCE | 0x14, cfa::DEF_CFA_OFFSET, 16];
    let mut section = Section::new(Dialect::EhFrame, &[]);
    section.function(CODE, 16, &runs_on).function(0, 64, &[]).function(CODE + CODE_BYTES - 4, 8, &[]);
    let table = section.table().unwrap();
    assert_eq!(table.first_page(), (CODE >> 16) as u32);
    assert_eq!(table.row_at(CODE + 20).unwrap().rule(), Rule::Gap);
    assert_eq!(table.rows().len(), 2);
}

#[test]
fn a_function_that_cannot_be_parsed_does_not_affect_others() {
    let unknown = [cfa::DEF_CFA_OFFSET, 16, cfa::ADVANCE | 4, 0x3e];
    let mut section = Section::new(Dialect::EhFrame, &[]);
    section.function(CODE, 16, &[]).function(CODE + 16, 16, &unknown).function(CODE + 32, 16, &[]);
    let table = section.table().unwrap();
    let rules = [0, 15, 16, 31, 32, 47].map(|byte| table.row_at(CODE + byte).unwrap().rule());
    assert_eq!(rules, [Rule::Rsp, Rule::Rsp, Rule::Unsupported, Rule::Unsupported, Rule::Rsp, Rule::Rsp]);
}

#[test]
fn instructions_that_are_shared_too_often_are_an_error() {
    // One long common entry, executed again for each of many tiny functions.
    let mut section = Section::new(Dialect::EhFrame, &vec![0; 1 << 16]);
    for index in 0..100 {
        section.function(CODE + index * 16, 16, &[]);
    }
    assert_eq!(section.table().unwrap_err(), Error::Corrupt("too many shared instructions"));
}

#[test]
fn a_section_without_functions_counts_as_no_unwind_information() {
    assert_eq!(Section::new(Dialect::EhFrame, &[]).table().unwrap_err(), Error::NoUnwindInfo);
}
