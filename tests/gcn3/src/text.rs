//! Instructions as text, in the assembler's language: what faults name, and what is compared with LLVM's disassembler.
//!
//! Names and operands are LLVM's. Modifiers behind the operands, and what is packed into SIMM16, are left out.

use std::fmt;

use crate::compare::Compare;
use crate::decode::{
    Encoding, Instruction, Isa, Lanes, Operand, Segment, has_carry_in, has_carry_out, operand,
};
use crate::opcodes::Op;

impl Instruction {
    /// The mnemonic with the suffix of its encoding.
    pub fn mnemonic(&self) -> String {
        let name = self.compare.map_or_else(|| self.op.name().to_owned(), Compare::name);
        let name = match self.memory.segment {
            Segment::Flat => name,
            Segment::Scratch => name.replacen("flat", "scratch", 1),
            Segment::Global => name.replacen("flat", "global", 1),
        };
        name + self.suffix()
    }

    fn suffix(&self) -> &'static str {
        let has_other_forms = match self.encoding {
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc => !self.op.takes_no_modifiers(),
            Encoding::Vop3 => {
                self.op == Op::VCmp || self.op.is_short() && !matches!(self.op, Op::VNop | Op::VClrexcp)
            }
            _ => false,
        };
        match (has_other_forms, self.lanes, self.encoding) {
            (false, ..) => "",
            (_, Lanes::Dpp { .. }, _) => "_dpp",
            (_, Lanes::Sdwa { .. }, _) => "_sdwa",
            (.., Encoding::Vop3) => "_e64",
            _ => "_e32",
        }
    }

    /// The operands in the assembler's order.
    pub fn operands(&self) -> Vec<String> {
        let widths = self.op.widths();
        let width = |index: usize| widths.get(index).copied().unwrap_or(0);
        match self.encoding {
            Encoding::Sop1 | Encoding::Sop2 => {
                let mut all = Vec::new();
                self.push(&mut all, self.dst, width(0), self.literal);
                for index in 1..widths.len() {
                    self.push(&mut all, self.src[index - 1], width(index), self.literal);
                }
                all
            }
            Encoding::Sopc => {
                (0..2).map(|index| self.name(self.src[index], width(index), self.literal)).collect()
            }
            Encoding::Sopk => {
                let mut all = Vec::new();
                self.push(&mut all, self.dst, width(0), 0);
                all
            }
            Encoding::Sopp => Vec::new(),
            Encoding::Smem => self.smem_operands(),
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vop3 | Encoding::Vop3p | Encoding::Vopc => {
                self.vector_operands()
            }
            Encoding::Ds => {
                let mut all = Vec::new();
                self.push(&mut all, self.dst, width(0), 0);
                if !matches!(self.op, Op::DsNop | Op::DsAppend | Op::DsConsume) {
                    self.push(&mut all, self.src[0], 1, 0);
                }
                self.push(&mut all, self.src[1], width(1), 0);
                self.push(&mut all, self.src[2], width(2), 0);
                all
            }
            Encoding::Flat => self.flat_operands(),
            Encoding::Mubuf => self.mubuf_operands(width(0)),
        }
    }

    fn flat_operands(&self) -> Vec<String> {
        let widths = self.op.widths();
        let mut all = Vec::new();
        if !self.op.is_flat_atomic() || self.memory.glc {
            self.push(&mut all, self.dst, widths[0], 0);
        }
        match self.vector_address_width() {
            0 => all.push("off".into()),
            width => self.push(&mut all, self.src[0], width, 0),
        }
        self.push(&mut all, self.src[1], widths[1], 0);
        match (self.memory.segment, self.memory.saddr) {
            (Segment::Flat, _) => {}
            (_, None) => all.push("off".into()),
            (Segment::Global, Some(address)) => self.push(&mut all, address, 2, 0),
            (Segment::Scratch, Some(address)) => self.push(&mut all, address, 1, 0),
        }
        all
    }

    fn smem_operands(&self) -> Vec<String> {
        let widths = self.op.widths();
        let mut all = Vec::new();
        if matches!(self.op, Op::SAtcProbe | Op::SAtcProbeBuffer) {
            // A number of the kind of access.
            all.push(if self.dst <= 64 { self.dst.to_string() } else { format!("{:#x}", self.dst) });
        } else {
            self.push(&mut all, self.dst, widths[0], 0);
        }
        if widths[1] > 0 {
            self.push(&mut all, self.src[0], widths[1], 0);
            match (self.src[1], self.literal as i32) {
                (operand::LITERAL, negative @ ..0) => all.push(format!("-{:#x}", negative.unsigned_abs())),
                (offset, _) => all.push(self.name(offset, 1, self.literal)),
            }
        }
        all
    }

    fn mubuf_operands(&self, width: u8) -> Vec<String> {
        if width == 0 {
            return Vec::new();
        }
        let mut all = Vec::new();
        if !self.memory.elsewhere {
            self.push(&mut all, self.dst, width, 0);
        }
        match u8::from(self.memory.offen) + u8::from(self.memory.idxen) {
            0 => all.push("off".into()),
            width => self.push(&mut all, self.src[0], width, 0),
        }
        self.push(&mut all, self.src[1], 4, 0);
        all.push(self.name(self.memory.soffset, 1, 0));
        all
    }

    fn vector_operands(&self) -> Vec<String> {
        let mut all = Vec::new();
        let compare = self.compare.map(Compare::widths);
        let widths = self.op.widths();
        let sources = match &compare {
            Some(widths) => {
                self.push(&mut all, self.dst, 2, 0);
                widths.as_slice()
            }
            None => widths.get(1..).unwrap_or_default(),
        };
        if let Some(&width) = widths.first() {
            self.push(&mut all, self.dst, width, 0);
        }
        if has_carry_out(self.op) {
            all.push(self.name(self.sdst, 2, 0));
        }
        for (index, &width) in sources.iter().enumerate() {
            let plain = self.name(self.src[index], width, self.literal);
            all.push(self.modified(index, plain));
        }
        if has_carry_in(self.op) {
            let mask = if self.encoding == Encoding::Vop3 { self.src[2] } else { operand::VCC };
            all.push(self.name(mask, 2, 0));
        }
        all
    }

    fn push(&self, all: &mut Vec<String>, operand: Operand, width: u8, literal: u32) {
        if width > 0 {
            all.push(self.name(operand, width, literal));
        }
    }

    fn name(&self, operand: Operand, width: u8, literal: u32) -> String {
        name(self.isa, operand, width, literal)
    }

    fn modified(&self, index: usize, plain: String) -> String {
        let plain = if self.abs >> index & 1 != 0 { format!("|{plain}|") } else { plain };
        let plain = if self.neg >> index & 1 != 0 { format!("-{plain}") } else { plain };
        match self.lanes {
            Lanes::Sdwa { sext, .. } if sext >> index & 1 != 0 => format!("sext({plain})"),
            _ => plain,
        }
    }
}

impl Op {
    /// Whether its short encoding takes no modifiers of lanes, and its name no suffix there.
    pub(crate) fn takes_no_modifiers(self) -> bool {
        matches!(
            self,
            Self::VMadmkF32
                | Self::VMadmkF16
                | Self::VMadakF32
                | Self::VMadakF16
                | Self::VReadfirstlaneB32
                | Self::VNop
                | Self::VSwapB32
                | Self::VClrexcp
        )
    }

    /// Whether VOP1 or VOP2 has it.
    pub(crate) fn is_short(self) -> bool {
        use crate::opcodes::{VOP1, VOP1_9, VOP2, VOP2_9};
        [&VOP1, &VOP1_9, &VOP2, &VOP2_9].iter().any(|table| table.contains(&Some(self)))
    }

    /// Whether it is an atomic operation of FLAT.
    pub(crate) fn is_flat_atomic(self) -> bool {
        self.name().starts_with("flat_atomic")
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mnemonic(), self.operands().join(", "))
    }
}

/// A register or constant.
fn name(isa: Isa, operand: Operand, width: u8, literal: u32) -> String {
    let range = |letter: &str, first: Operand| match width {
        0 | 1 => format!("{letter}{first}"),
        _ => format!("{letter}[{first}:{}]", first + Operand::from(width) - 1),
    };
    let pair = |whole: &str, first: Operand| match (width, operand - first) {
        (2, 0) => whole.to_owned(),
        (_, 0) => format!("{whole}_lo"),
        _ => format!("{whole}_hi"),
    };
    match operand {
        operand::VECTOR.. => range("v", operand - operand::VECTOR),
        0..=101 => range("s", operand),
        102..=103 => pair("flat_scratch", 102),
        104..=105 => pair("xnack_mask", 104),
        106..=107 => pair("vcc", 106),
        108..=123 if isa == Isa::Gfx9 => range("ttmp", operand - 108),
        108..=109 => pair("tba", 108),
        110..=111 => pair("tma", 110),
        112..=123 => range("ttmp", operand - 112),
        operand::M0 => "m0".into(),
        operand::EXEC | 127 => pair("exec", operand::EXEC),
        128..=192 => (operand - 128).to_string(),
        193..=208 => format!("-{}", operand - 192),
        235 if isa == Isa::Gfx9 => "src_shared_base".into(),
        236 if isa == Isa::Gfx9 => "src_shared_limit".into(),
        237 if isa == Isa::Gfx9 => "src_private_base".into(),
        238 if isa == Isa::Gfx9 => "src_private_limit".into(),
        240 => "0.5".into(),
        241 => "-0.5".into(),
        242 => "1.0".into(),
        243 => "-1.0".into(),
        244 => "2.0".into(),
        245 => "-2.0".into(),
        246 => "4.0".into(),
        247 => "-4.0".into(),
        248 => "0.15915494".into(),
        operand::VCCZ => "src_vccz".into(),
        operand::EXECZ => "src_execz".into(),
        operand::SCC => "src_scc".into(),
        operand::LITERAL => format!("{literal:#x}"),
        _ => format!("operand{operand}"),
    }
}
