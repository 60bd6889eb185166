//! What the kernel takes for a probe that does nothing: the floor under what tracing can cost on a machine.
//!
//! Programs of two instructions are attached to functions of this process by `uprobe_multi` links, as the tracer's are. A probe
//! costs a trap at the entry and another when the function returns. The kernel also executes the instruction that the trap has
//! replaced: it emulates a few, such as `push`, and steps through all others, which costs a second trap. Compilers begin functions
//! with `endbr64` where control-flow protection is on.

use std::arch::naked_asm;
use std::error::Error;
use std::hint::black_box;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Instant;

use aya_obj::generated::bpf_insn;
use xsched_bpf::sys::{self, Code, Direction, Purpose};
use xsched_symbols::own_code;
use xsched_tests::bench::{Row, paired};

const BENCH: &str = "probes";
const ROUNDS: usize = 15;
const CALLS_PER_ROUND: u32 = 10_000;

type Probed = extern "C" fn();

#[unsafe(naked)]
extern "C" fn begins_with_push() {
    naked_asm!("push rbp", "pop rbp", "ret")
}

#[unsafe(naked)]
extern "C" fn begins_with_sub() {
    naked_asm!("sub rsp, 24", "add rsp, 24", "ret")
}

#[unsafe(naked)]
extern "C" fn begins_with_endbr64() {
    naked_asm!("endbr64", "push rbp", "pop rbp", "ret")
}

fn main() -> Result<(), Box<dyn Error>> {
    let program = load_empty()?;
    let functions: [(&str, Probed); 3] =
        [("push", begins_with_push), ("sub", begins_with_sub), ("endbr64", begins_with_endbr64)];
    for (first, function) in functions {
        let probes: [(&str, &[Direction]); 3] = [
            ("entry", &[Direction::Enter]),
            ("return", &[Direction::Return]),
            ("entry and return", &[Direction::Enter, Direction::Return]),
        ];
        for (name, directions) in probes {
            let pair = paired(
                ROUNDS,
                || Ok::<_, Box<dyn Error>>(time_of(function)),
                || {
                    let _links = attach(&program, function, directions)?;
                    Ok(time_of(function))
                },
            )?;
            let metric = format!("empty probe at {name}, `{first}` first");
            Row::single(BENCH, metric, "ns", &pair.difference).print()?;
        }
    }
    Ok(())
}

fn time_of(function: Probed) -> f64 {
    let started = Instant::now();
    for _ in 0..CALLS_PER_ROUND {
        black_box(function)();
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS_PER_ROUND)
}

/// `r0 = 0; exit`
fn load_empty() -> Result<OwnedFd, Box<dyn Error>> {
    const SET: u8 = 0xb7;
    const EXIT: u8 = 0x95;
    let instructions = [SET, EXIT].map(|code| bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
        off: 0,
        imm: 0,
    });
    let code = Code { name: "empty", license: c"GPL", instructions: &instructions, functions: None };
    sys::load(&code, Purpose::UprobeMulti)
        .map_err(|(error, _)| format!("failed to load a program: {error}").into())
}

fn attach(
    program: &OwnedFd,
    function: Probed,
    directions: &[Direction],
) -> Result<Vec<OwnedFd>, Box<dyn Error>> {
    let (_, offset) = own_code(function as *const () as u64)?;
    let own = Path::new("/proc/self/exe");
    let link = |&direction: &Direction| {
        sys::link_uprobe_multi(program.as_fd(), direction, own, &[offset], &[0], Some(std::process::id()))
    };
    Ok(directions.iter().map(link).collect::<Result<_, _>>()?)
}
