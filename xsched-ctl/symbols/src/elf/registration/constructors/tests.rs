use super::*;

/// The address of the code, and the addresses of the words that hold imported functions.
const CODE: u64 = 0x1000;
const FAT_BINARY_SLOT: u64 = 0x8000;
const FUNCTION_SLOT: u64 = 0x8008;

/// Code from [`CODE`] on.
struct Program(Vec<u8>);

impl Memory for Program {
    fn code(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let rest = self
            .0
            .get(usize::try_from(address.checked_sub(CODE)?).ok()?..)
            .filter(|rest| !rest.is_empty())?;
        Some(rest[..rest.len().min(count)].to_vec())
    }
}

impl Program {
    /// Appends `bytes` and a four-byte displacement, relative to the next instruction, that leads to an address.
    fn relative(&mut self, bytes: &[u8], to: u64) -> &mut Self {
        self.0.extend(bytes);
        let next = CODE + self.0.len() as u64 + 4;
        self.0.extend((to.wrapping_sub(next) as u32).to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    /// The address of the next instruction.
    fn here(&self) -> u64 {
        CODE + self.0.len() as u64
    }

    fn calls(&self, constructors: &[u64]) -> Calls {
        let slots = [(FAT_BINARY_SLOT, Import::RegisterFatBinary), (FUNCTION_SLOT, Import::RegisterFunction)];
        let mut dynamic = Dynamic::default();
        dynamic.constructors.extend(constructors);
        dynamic.slots.extend(slots);
        Calls::of_constructors(self, &dynamic)
    }
}

const LEA_RDI: [u8; 3] = [0x48, 0x8d, 0x3d];
const LEA_RSI: [u8; 3] = [0x48, 0x8d, 0x35];
const LEA_RCX: [u8; 3] = [0x48, 0x8d, 0x0d];
const MOV_RDX_RCX: [u8; 3] = [0x48, 0x89, 0xca];
const CALL: [u8; 1] = [0xe8];
const CALL_SLOT: [u8; 2] = [0xff, 0x15];
const JUMP_SLOT: [u8; 2] = [0xff, 0x25];
const RET: [u8; 1] = [0xc3];

/// Two entries of a procedure linkage table: one for fat binaries, and 16 bytes further one for functions.
fn with_linkage() -> Program {
    let mut program = Program(Vec::new());
    program.relative(&JUMP_SLOT, FAT_BINARY_SLOT).bytes(&[0xcc; 10]);
    program.bytes(&[0xf3, 0x0f, 0x1e, 0xfa]).relative(&JUMP_SLOT, FUNCTION_SLOT).bytes(&[0xcc; 6]);
    program
}

#[test]
fn constant_arguments_are_found_in_straight_code() {
    let mut program = with_linkage();
    let start = program.here();
    program.relative(&LEA_RDI, 0x9000).relative(&CALL, CODE);
    for (handle, name) in [(0x9100, 0x2000), (0x9108, 0x2010)] {
        program
            .relative(&LEA_RSI, handle)
            .relative(&LEA_RCX, name)
            .bytes(&MOV_RDX_RCX)
            .relative(&CALL, CODE + 16);
    }
    program.bytes(&RET);
    let calls = program.calls(&[start]);
    assert_eq!(calls.wrappers, [0x9000]);
    assert_eq!(calls.functions, [(0x9100, 0x2000), (0x9108, 0x2010)]);
}

#[test]
fn indirect_and_nested_calls_are_found() {
    let mut program = with_linkage();
    let inner = program.here();
    program.relative(&LEA_RSI, 0x9100).relative(&LEA_RCX, 0x2000).bytes(&MOV_RDX_RCX);
    program.relative(&CALL_SLOT, FUNCTION_SLOT).bytes(&RET);
    let start = program.here();
    program.relative(&CALL, inner).bytes(&RET);
    assert_eq!(program.calls(&[start]).functions, [(0x9100, 0x2000)]);
}

#[test]
fn other_writes_make_a_register_unknown() {
    // add rsi, 8; xor esi, esi; pop rsi; a load; a call; and a kernel's name of which only one copy is known.
    let spoilers: [&[u8]; 6] = [
        &[0x48, 0x83, 0xc6, 0x08],
        &[0x31, 0xf6],
        &[0x5e],
        &[0x48, 0x8b, 0x36],
        &[0xe8, 0, 0, 0, 0],
        &[0x31, 0xd2],
    ];
    for spoiler in spoilers {
        let mut program = with_linkage();
        let start = program.here();
        program.relative(&LEA_RSI, 0x9100).relative(&LEA_RCX, 0x2000).bytes(&MOV_RDX_RCX).bytes(spoiler);
        program.relative(&CALL, CODE + 16).bytes(&RET);
        assert_eq!(program.calls(&[start]).functions, [], "{spoiler:x?}");
    }
}

#[test]
fn a_jump_target_makes_registers_unknown() {
    for (jump, expected) in [(0x02, &[][..]), (0x00, &[(0x9100, 0x2000)])] {
        let mut program = with_linkage();
        let start = program.here();
        program.relative(&LEA_RSI, 0x9100).relative(&LEA_RCX, 0x2000).bytes(&MOV_RDX_RCX);
        // jne over the next two bytes, to the call; or to the next instruction, which is a jump target, too.
        program.bytes(&[0x75, jump, 0x90, 0x90]);
        if jump == 0 {
            program.relative(&LEA_RSI, 0x9100).relative(&LEA_RCX, 0x2000).bytes(&MOV_RDX_RCX);
        }
        program.relative(&CALL, CODE + 16).bytes(&RET);
        assert_eq!(program.calls(&[start]).functions, expected, "{jump}");
    }
}

#[test]
fn a_function_continues_after_a_return_that_a_jump_crosses() {
    let mut program = with_linkage();
    let start = program.here();
    // jne to the instruction after the return.
    program.bytes(&[0x75, 0x01]).bytes(&RET);
    program.relative(&LEA_RSI, 0x9100).relative(&LEA_RCX, 0x2000).bytes(&MOV_RDX_RCX);
    program.relative(&CALL, CODE + 16).bytes(&RET);
    assert_eq!(program.calls(&[start]).functions, [(0x9100, 0x2000)]);
    // The code after the end of the function belongs to another function, which the constructor does not call.
    program.relative(&LEA_RSI, 0x9108).relative(&LEA_RCX, 0x2010).bytes(&MOV_RDX_RCX);
    program.relative(&CALL, CODE + 16).bytes(&RET);
    assert_eq!(program.calls(&[start]).functions, [(0x9100, 0x2000)]);
}

#[test]
fn recursion_and_invalid_code_end() {
    let mut program = with_linkage();
    let start = program.here();
    program.relative(&CALL, start).bytes(&[0x06, 0x06]);
    assert_eq!(program.calls(&[start, 0, u64::MAX]).functions, []);
}
