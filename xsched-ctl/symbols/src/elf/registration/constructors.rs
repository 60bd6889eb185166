//! Reads what constructors are going to call, and with which constants.
//!
//! Code is followed as it lies, from the beginning of a function to where nothing jumps over its end. Of registers only
//! constants are known: an address that is loaded, and copies of it. Whatever else writes a register makes it unknown, and so
//! does a place that something jumps to, which other values may reach.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};

use super::dynamic::{Dynamic, Import};

/// Instructions that are looked at in one file: of the largest library, several times over.
const INSTRUCTIONS_MAX: usize = 1 << 23;

/// Bytes that are decoded at once, and the longest instruction.
const CHUNK_BYTES: usize = 64 << 10;
const INSTRUCTION_BYTES_MAX: usize = 15;

/// How far a jump within a function leads.
const JUMP_MAX: u64 = 1 << 20;

/// Calls from a constructor to the function that registers.
const DEPTH_MAX: u32 = 2;

/// Instructions of an entry of a procedure linkage table, up to its jump.
const LINKAGE_INSTRUCTIONS: usize = 3;

/// Where code is read.
pub(super) trait Memory {
    /// Up to `count` bytes of code from an address on; None if there is none.
    fn code(&self, address: u64, count: usize) -> Option<Vec<u8>>;
}

/// Calls with constants.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// What `__hipRegisterFatBinary` is given.
    pub(super) wrappers: Vec<u64>,
    /// Handle and name that `__hipRegisterFunction` is given.
    pub(super) functions: Vec<(u64, u64)>,
}

impl Calls {
    /// Those of a file's constructors, and of the functions that these call.
    pub(super) fn of_constructors(memory: &impl Memory, dynamic: &Dynamic) -> Self {
        let mut reader = Reader {
            memory,
            slots: &dynamic.slots,
            calls: Self::default(),
            linkage: HashMap::new(),
            waiting: dynamic.constructors.iter().map(|&constructor| (constructor, 0)).collect(),
            seen: dynamic.constructors.iter().copied().collect(),
            information: InstructionInfoFactory::new(),
            left: INSTRUCTIONS_MAX,
        };
        while let Some((function, depth)) = reader.waiting.pop() {
            reader.function(function, depth);
        }
        reader.calls
    }
}

struct Reader<'a, M> {
    memory: &'a M,
    slots: &'a HashMap<u64, Import>,
    calls: Calls,
    /// What is imported through an entry of a procedure linkage table, by its address.
    linkage: HashMap<u64, Option<Import>>,
    /// Functions to be read, each with the number of calls that have led there.
    waiting: Vec<(u64, u32)>,
    seen: HashSet<u64>,
    information: InstructionInfoFactory,
    left: usize,
}

/// What is known of the registers.
#[derive(Clone, Copy, Default)]
struct Constants([Option<u64>; 16]);

impl Constants {
    fn get(&self, register: Register) -> Option<u64> {
        register.is_gpr().then(|| self.0[register.full_register().number()]).flatten()
    }

    fn set(&mut self, register: Register, value: Option<u64>) {
        if register.is_gpr() {
            self.0[register.full_register().number()] = value;
        }
    }

    /// A call leaves only those alone that belong to the caller.
    fn called(&mut self) {
        let kept = [
            Register::RBX,
            Register::RBP,
            Register::RSP,
            Register::R12,
            Register::R13,
            Register::R14,
            Register::R15,
        ];
        for (number, value) in self.0.iter_mut().enumerate() {
            if !kept.iter().any(|register| register.number() == number) {
                *value = None;
            }
        }
    }
}

impl<M: Memory> Reader<'_, M> {
    fn function(&mut self, start: u64, depth: u32) {
        let mut constants = Constants::default();
        // Where something jumps to further on: the function goes on at least up to there.
        let mut targets = HashSet::new();
        let (mut address, mut furthest) = (start, start);
        while let Some(code) = self.memory.code(address, CHUNK_BYTES) {
            let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
            let is_last = code.len() < CHUNK_BYTES;
            while decoder.can_decode() && (is_last || decoder.position() + INSTRUCTION_BYTES_MAX < code.len())
            {
                let instruction = decoder.decode();
                if instruction.is_invalid() || self.left == 0 {
                    return;
                }
                self.left -= 1;
                if targets.contains(&instruction.ip()) {
                    constants = Constants::default();
                }
                let flow = instruction.flow_control();
                if matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
                    let target = instruction.near_branch_target();
                    if target > instruction.ip() && target - instruction.ip() < JUMP_MAX {
                        targets.insert(target);
                        furthest = furthest.max(target);
                    }
                }
                match flow {
                    FlowControl::Next | FlowControl::ConditionalBranch => {
                        self.execute(&instruction, &mut constants);
                    }
                    FlowControl::Call | FlowControl::IndirectCall => {
                        self.call(&instruction, &constants, depth);
                        constants.called();
                    }
                    _ if furthest >= instruction.next_ip() => constants = Constants::default(),
                    _ => return,
                }
            }
            if is_last {
                return;
            }
            address = decoder.ip();
        }
    }

    fn execute(&mut self, instruction: &Instruction, constants: &mut Constants) {
        let to = instruction.op0_register();
        let value = match instruction.code() {
            Code::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
                Some(instruction.ip_rel_memory_address())
            }
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64
                if instruction.op0_kind() == OpKind::Register
                    && instruction.op1_kind() == OpKind::Register =>
            {
                constants.get(instruction.op1_register())
            }
            Code::Mov_r32_imm32 | Code::Mov_r64_imm64 => Some(instruction.immediate(1)),
            _ => {
                for used in self.information.info(instruction).used_registers() {
                    let is_written = !matches!(
                        used.access(),
                        OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
                    );
                    if is_written {
                        constants.set(used.register(), None);
                    }
                }
                return;
            }
        };
        constants.set(to, value);
    }

    fn call(&mut self, instruction: &Instruction, constants: &Constants, depth: u32) {
        let import = if instruction.is_ip_rel_memory_operand() {
            self.slots.get(&instruction.ip_rel_memory_address()).copied()
        } else if instruction.op0_kind() == OpKind::NearBranch64 {
            self.linked(instruction.near_branch_target())
        } else {
            None
        };
        match import {
            Some(Import::RegisterFatBinary) => self.calls.wrappers.extend(constants.get(Register::RDI)),
            Some(Import::RegisterFunction) => {
                let (handle, name) = (constants.get(Register::RSI), constants.get(Register::RCX));
                // The kernel's name comes twice.
                if let (Some(handle), Some(name)) = (handle, name)
                    && constants.get(Register::RDX) == Some(name)
                {
                    self.calls.functions.push((handle, name));
                }
            }
            None if instruction.op0_kind() == OpKind::NearBranch64 && depth < DEPTH_MAX => {
                let target = instruction.near_branch_target();
                if self.seen.insert(target) {
                    self.waiting.push((target, depth + 1));
                }
            }
            None => {}
        }
    }

    /// What is imported through the code at an address, if that jumps on to it.
    fn linked(&mut self, address: u64) -> Option<Import> {
        if let Some(&known) = self.linkage.get(&address) {
            return known;
        }
        let code = self.memory.code(address, LINKAGE_INSTRUCTIONS * INSTRUCTION_BYTES_MAX)?;
        let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
        let jump = decoder
            .iter()
            .take(LINKAGE_INSTRUCTIONS)
            .take_while(|instruction| !instruction.is_invalid())
            .find(|instruction| instruction.flow_control() != FlowControl::Next);
        let import = jump
            .filter(|jump| {
                jump.flow_control() == FlowControl::IndirectBranch && jump.is_ip_rel_memory_operand()
            })
            .and_then(|jump| self.slots.get(&jump.ip_rel_memory_address()).copied());
        self.linkage.insert(address, import);
        import
    }
}

#[cfg(test)]
mod tests;
