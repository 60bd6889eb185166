//! Commands of the command processor (PM4), of which the runtime sends a few in a buffer: it makes caches forget code.

use xsched_gcn3::{Memory, Unmapped};

use crate::clock;

/// Codes of commands.
const NOP: u32 = 0x10;
const WRITE_DATA: u32 = 0x37;
const INDIRECT_BUFFER: u32 = 0x3f;
const RELEASE_MEM: u32 = 0x49;
const ACQUIRE_MEM: u32 = 0x58;

/// Why commands cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Pm4Error {
    /// A command that is not among those.
    #[error("command {0:#04x} of PM4 is not executed")]
    Command(u32),
    /// A command without all its words.
    #[error("a command of PM4 ends early")]
    Short,
    /// An address without memory.
    #[error(transparent)]
    Memory(#[from] Unmapped),
}

/// Executes a buffer of commands that the words of `jump` name.
pub(crate) fn jump(jump: &[u32], memory: &mut dyn Memory) -> Result<(), Pm4Error> {
    let &[header, low, high, size, ..] = jump else { return Err(Pm4Error::Short) };
    if header >> 8 & 0xff != INDIRECT_BUFFER {
        return Err(Pm4Error::Command(header >> 8 & 0xff));
    }
    let address = u64::from(low & !3) | u64::from(high & 0xffff) << 32;
    let mut words = Vec::new();
    for index in 0..u64::from(size & 0xf_ffff) {
        words.push(memory.read_u32(address + index * 4)?);
    }
    execute(&words, memory)
}

fn execute(mut words: &[u32], memory: &mut dyn Memory) -> Result<(), Pm4Error> {
    while let [header, rest @ ..] = words {
        // Type 2 is padding, and so is a NOP of the largest size.
        if header >> 30 == 2 || (header >> 8 & 0xff == NOP && header >> 16 & 0x3fff == 0x3fff) {
            words = rest;
            continue;
        }
        let count = (header >> 16 & 0x3fff) as usize + 1;
        let (body, next) = rest.split_at_checked(count).ok_or(Pm4Error::Short)?;
        let address = |at: usize| body.get(at..at + 2).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32);
        match header >> 8 & 0xff {
            // There are no caches.
            NOP | ACQUIRE_MEM => {}
            WRITE_DATA => {
                let target = address(1).ok_or(Pm4Error::Short)?;
                for (index, &value) in (0..).zip(&body[3..]) {
                    memory.write_u32(target + index * 4, value)?;
                }
            }
            RELEASE_MEM => {
                let (target, value) = address(2).zip(address(4)).ok_or(Pm4Error::Short)?;
                match body[1] >> 29 {
                    0 => {}
                    1 => memory.write_u32(target, value as u32)?,
                    2 => memory.write(target, &value.to_le_bytes())?,
                    _ => memory.write(target, &clock::device().to_le_bytes())?,
                }
            }
            other => return Err(Pm4Error::Command(other)),
        }
        words = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use xsched_gcn3::Block;

    use super::*;

    fn header(code: u32, words: u32) -> u32 {
        3 << 30 | (words - 1) << 16 | code << 8
    }

    #[test]
    fn a_buffer_of_commands_is_executed_and_others_are_refused_by_name() {
        let mut memory = Block::new(0x1000, 0x1000);
        let commands = [header(ACQUIRE_MEM, 6), 0, 0, 0, 0, 0, 0, header(WRITE_DATA, 4), 0, 0x1800, 0, 7];
        for (at, word) in (0x1000..).step_by(4).zip(commands) {
            memory.write_u32(at, word).unwrap();
        }
        let there = [header(INDIRECT_BUFFER, 3), 0x1000, 0, commands.len() as u32];
        assert_eq!(jump(&there, &mut memory), Ok(()));
        assert_eq!(memory.read_u32(0x1800), Ok(7));
        memory.write_u32(0x1000, header(0x20, 6)).unwrap();
        assert_eq!(jump(&there, &mut memory), Err(Pm4Error::Command(0x20)));
    }
}
