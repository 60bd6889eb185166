//! Finds the calls in constructors, with their constant arguments.
//!
//! Code is read in address order, from the beginning of a function to an end that no jump crosses. Only constants in
//! registers are known: an address that is loaded, and copies of it. Any other write to a register makes it unknown. So
//! does a jump target, which may be reached with other values.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};

use super::dynamic::{Dynamic, Import};

/// The most instructions that are decoded in one file: several times as many as the largest library needs.
const INSTRUCTIONS_MAX: usize = 1 << 23;

/// Bytes that are decoded at once, and the longest instruction.
const CHUNK_BYTES: usize = 64 << 10;
const INSTRUCTION_BYTES_MAX: usize = 15;

/// The longest jump within a function.
const JUMP_MAX: u64 = 1 << 20;

/// The most nested calls from a constructor to the function that registers.
const DEPTH_MAX: u32 = 2;

/// Instructions of an entry of a procedure linkage table, including its jump.
const LINKAGE_INSTRUCTIONS: usize = 3;

/// The memory from which code is read.
pub(super) trait Memory {
    /// Up to `count` bytes of code from an address on; None if there is none.
    fn code(&self, address: u64, count: usize) -> Option<Vec<u8>>;
}

/// Calls with constant arguments.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Arguments of `__hipRegisterFatBinary`.
    pub(super) wrappers: Vec<u64>,
    /// Handle and name from the arguments of `__hipRegisterFunction`.
    pub(super) functions: Vec<(u64, u64)>,
}

impl Calls {
    /// The calls in a file's constructors, and in the functions that these call.
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
    /// Imported functions by the address of their entry in a procedure linkage table.
    linkage: HashMap<u64, Option<Import>>,
    /// Functions to be read, each with its depth of calls.
    waiting: Vec<(u64, u32)>,
    seen: HashSet<u64>,
    information: InstructionInfoFactory,
    left: usize,
}

/// The known values of registers.
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

    /// Forgets all registers but the callee-saved ones.
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
        // Forward jump targets: the function continues at least up to them.
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
                // The kernel's name is passed twice.
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

    /// The function that is imported through the code at an address, if that code is an entry of a linkage table.
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
