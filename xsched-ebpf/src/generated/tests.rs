use super::*;

const STACK: u64 = 0x7ffc_0000_1000;
const GENERATED: u64 = 0x7f00_0000_0000;
const FILE: u64 = 0x55_0000_0000;

/// A stack of words, generated code, and code of a file, which is all zeros except for inserted instructions.
struct Memory {
    stack: [u64; 64],
    generated: [u8; 64],
    file: [u8; 64],
}

impl Memory {
    fn new() -> Self {
        Self { stack: [7; 64], generated: [0; 64], file: [0; 64] }
    }

    /// Inserts instructions before an address; returns the address.
    fn ending_at(&mut self, address: u64, code: &[u8]) -> u64 {
        let (memory, base) =
            if address >= GENERATED { (&mut self.generated, GENERATED) } else { (&mut self.file, FILE) };
        let end = (address - base) as usize;
        memory[end - code.len()..end].copy_from_slice(code);
        address
    }

    fn step(&mut self, rsp_word: u64, rbp_word: u64) -> Option<Registers> {
        let at = Registers { rip: GENERATED + 32, rsp: STACK + 8 * rsp_word, rbp: STACK + 8 * rbp_word };
        step(&at, self)
    }
}

impl Surroundings for Memory {
    fn code(&mut self, address: u64) -> Option<u64> {
        let (memory, base) =
            if address >= GENERATED { (&self.generated, GENERATED) } else { (&self.file, FILE) };
        let at = usize::try_from(address.checked_sub(base)?).ok()?;
        Some(u64::from_le_bytes(memory.get(at..at + 8)?.try_into().ok()?))
    }

    fn stack(&mut self, address: u64) -> Option<u64> {
        let index = usize::try_from(address.checked_sub(STACK)? / 8).ok()?;
        self.stack.get(index).copied()
    }

    fn kind(&mut self, address: u64) -> AddressKind {
        match address {
            _ if (FILE..FILE + 64).contains(&address) => AddressKind::Code,
            _ if (GENERATED..GENERATED + 64).contains(&address) => AddressKind::Generated,
            _ => AddressKind::NoCode,
        }
    }
}

fn caller(rip: u64, rsp_word: u64, rbp: u64) -> Registers {
    Registers { rip, rsp: STACK + 8 * rsp_word, rbp }
}

/// `call rax`
const CALL_RAX: [u8; 2] = [0xff, 0xd0];

#[test]
fn a_frame_pointer_leads_to_the_caller() {
    let mut memory = Memory::new();
    memory.stack[9] = memory.ending_at(FILE + 40, &CALL_RAX);
    assert_eq!(memory.step(4, 8), Some(caller(FILE + 40, 10, 7)));
}

#[test]
fn a_frame_pointer_of_another_function_is_none() {
    let mut memory = Memory::new();
    memory.stack[9] = memory.ending_at(FILE + 40, &CALL_RAX);
    // The function has left its caller's frame pointer in place: its own return address lies below.
    memory.stack[6] = memory.ending_at(FILE + 20, &CALL_RAX);
    assert_eq!(memory.step(4, 8), None);
}

#[test]
fn a_value_that_is_no_frame_pointer_ends_the_chain() {
    let mut memory = Memory::new();
    memory.stack[9] = memory.ending_at(FILE + 40, &CALL_RAX);
    assert_eq!(memory.step(9, 8), None, "below the stack pointer");
    assert_eq!(memory.step(4, 8 + FRAME_WORDS_MAX as u64), None, "too far");
    assert_eq!(memory.step(4, 7), None, "no code above it");
    let at = Registers { rip: GENERATED + 32, rsp: STACK + 32, rbp: STACK + 65 };
    assert_eq!(step(&at, &mut memory), None, "not aligned");
    memory.stack[9] = FILE + 41;
    assert_eq!(memory.step(4, 8), None, "no call before it");
}

#[test]
fn a_direct_call_must_lead_into_generated_code() {
    let mut memory = Memory::new();
    let call = |to: u64, from: u64| {
        let [a, b, c, d, ..] = to.wrapping_sub(from).to_le_bytes();
        [0xe8, a, b, c, d]
    };
    memory.stack[9] = memory.ending_at(GENERATED + 60, &call(GENERATED + 16, GENERATED + 60));
    assert_eq!(memory.step(4, 8), Some(caller(GENERATED + 60, 10, 7)));
    memory.stack[9] = memory.ending_at(FILE + 40, &call(FILE, FILE + 40));
    assert_eq!(memory.step(4, 8), None);
}

#[test]
fn the_end_of_a_function_tells_where_its_caller_is() {
    let ends: [(&[u8], u64, bool); 6] = [
        (&[0xc3], 0, false),
        (&[0xf3, 0xc3], 0, false),
        (&[0x5d, 0xc3], 0, true),
        (&[0x48, 0x83, 0xc4, 0x08, 0xc3], 1, false),
        (&[0x48, 0x83, 0xc4, 0x18, 0x5d, 0xc3], 3, true),
        (&[0x48, 0x81, 0xc4, 0x20, 0, 0, 0, 0x5d, 0xc3], 4, true),
    ];
    for (code, drops, pops_rbp) in ends {
        let mut memory = Memory::new();
        memory.generated[32..32 + code.len()].copy_from_slice(code);
        let slot = 4 + drops + u64::from(pops_rbp);
        // The word's index on the stack tells whether the right one was popped.
        memory.stack[slot as usize - 1] = 1000;
        memory.stack[slot as usize] = memory.ending_at(FILE + 40, &CALL_RAX);
        let rbp = if pops_rbp { 1000 } else { STACK };
        assert_eq!(memory.step(4, 0), Some(caller(FILE + 40, slot + 1, rbp)), "{code:x?}");
    }
    // Neither takes down what is there.
    for code in [&[0x48, 0x83, 0xc4, 0xf8, 0xc3][..], &[0x48, 0x81, 0xc4, 0, 0, 0, 0x80, 0xc3]] {
        let mut memory = Memory::new();
        memory.generated[32..32 + code.len()].copy_from_slice(code);
        memory.stack[4] = memory.ending_at(FILE + 40, &CALL_RAX);
        assert_eq!(memory.step(4, 0), None, "{code:x?}");
    }
}

#[test]
fn calls_are_told_by_the_bytes_before_the_return_address() {
    let calls: [&[u8]; 12] = [
        &[0xff, 0xd1],
        &[0x41, 0xff, 0xd4],
        &[0xff, 0x10],
        &[0xff, 0x14, 0xc8],
        &[0xff, 0x50, 0x18],
        &[0xff, 0x54, 0x24, 0x08],
        &[0xff, 0x15, 1, 2, 3, 4],
        &[0xff, 0x90, 1, 2, 3, 4],
        &[0xff, 0x94, 0x24, 1, 2, 3, 4],
        &[0xff, 0x14, 0xc5, 1, 2, 3, 4],
        &[0xe8, 1, 2, 3, 4],
        &[0xe8, 0xff, 0xff, 0xff, 0xff],
    ];
    let is_call = |code: &[u8]| {
        let mut bytes = [0; 8];
        bytes[8 - code.len()..].copy_from_slice(code);
        let before = u64::from_le_bytes(bytes);
        is_indirect_call(before) || direct_call(before).is_some()
    };
    for call in calls {
        assert!(is_call(call), "{call:x?}");
    }
    let others: [&[u8]; 7] = [
        &[0xff, 0xe0],
        &[0xff, 0xc0],
        &[0x90, 0x90],
        &[0xff, 0x14],
        &[0xff, 0x54, 0x24],
        &[0xff, 0x15, 1, 2, 3],
        &[0xe8, 1, 2, 3],
    ];
    for other in others {
        assert!(!is_call(other), "{other:x?}");
    }
}
