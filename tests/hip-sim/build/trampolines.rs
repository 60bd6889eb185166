//! The exported symbols as assembly: a frame's first and last instructions, then a jump through the table.
//!
//! ```text
//! export:      push %rbp; mov %rsp,%rbp; pop %rbp     as genuine exports begin
//!              mov ACTIVE(%rip),%r11                  the active table
//!              jmp *offset(%r11)                      entry of the function
//!
//! first call:  mov $offset,%r10d; jmp common          each entry of the initial table
//! common:      save arguments; call first_call        returns the table that is active from now on
//!              restore arguments; jmp *(%r11,%r10)
//! ```
//!
//! Genuine exports begin with `push %rbp`. The kernel emulates this instruction when a uprobe sits on it,
//! instead of single-stepping it. The jumps leave argument registers and stack arguments as the caller set
//! them; `%r10` and `%r11` carry no arguments.

use std::fmt::Write as _;

use crate::api_list::Table;
use crate::exports::Export;

/// Assembly template for `global_asm!`. Its operands are `{runtime}` and `{compiler}`, the pointers to the
/// active tables, and `{first_call}`.
pub(crate) fn assembly(exports: &[Export], compiler_len: usize, runtime_len: usize) -> String {
    let mut text = String::from(".section .text.hip_sim_exports, \"ax\", @progbits\n");
    for (number, export) in exports.iter().enumerate() {
        trampoline(&mut text, number, export);
    }
    first_calls(&mut text, "compiler", 0, compiler_len);
    first_calls(&mut text, "runtime", 1, runtime_len);
    addresses(&mut text, exports.len());
    text
}

/// A table begins with its size in bytes.
fn offset(index: usize) -> usize {
    8 + 8 * index
}

fn trampoline(text: &mut String, number: usize, export: &Export) {
    let symbol = &export.symbol;
    let table = match export.table {
        Table::Compiler => "{compiler}",
        Table::Runtime => "{runtime}",
    };
    let offset = offset(export.index);
    write!(
        text,
        "
    .p2align 4
    .globl {symbol}
    .type {symbol}, @function
{symbol}:
.Lhip_sim_export_{number}:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pop %rbp
    .cfi_restore %rbp
    .cfi_def_cfa %rsp, 8
    mov {table}(%rip), %r11
    jmp *{offset}(%r11)
    .cfi_endproc
    .size {symbol}, .-{symbol}
"
    )
    .expect(STRING);
}

const STRING: &str = "writing to a string cannot fail";

/// Registers that carry integer arguments, in the order of their slots in the frame; with `%rax`, the number
/// of vector registers, and `%r10`.
const SAVED_INTEGERS: [&str; 8] = ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "r10"];
const SAVED_VECTORS: usize = 8;

/// `hip_sim_first_calls_<name>`: a table whose entries activate the real table and continue through it.
fn first_calls(text: &mut String, name: &str, number: usize, len: usize) {
    let frame = 8 * SAVED_INTEGERS.len() + 16 * SAVED_VECTORS;
    let (mut save, mut restore) = (String::new(), String::new());
    for (slot, register) in SAVED_INTEGERS.iter().enumerate() {
        let at = 8 * slot;
        writeln!(save, "    mov %{register}, {at}(%rsp)").expect(STRING);
        writeln!(restore, "    mov {at}(%rsp), %{register}").expect(STRING);
    }
    for register in 0..SAVED_VECTORS {
        let at = 8 * SAVED_INTEGERS.len() + 16 * register;
        writeln!(save, "    movups %xmm{register}, {at}(%rsp)").expect(STRING);
        writeln!(restore, "    movups {at}(%rsp), %xmm{register}").expect(STRING);
    }
    write!(
        text,
        "
    .p2align 4
.Lhip_sim_first_{name}:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub ${frame}, %rsp
{save}    mov ${number}, %edi
    call {{first_call}}
    mov %rax, %r11
{restore}    leave
    .cfi_restore %rbp
    .cfi_def_cfa %rsp, 8
    jmp *(%r11, %r10)
    .cfi_endproc
"
    )
    .expect(STRING);
    for index in 0..len {
        let offset = offset(index);
        writeln!(
            text,
            ".Lhip_sim_first_{name}_{index}:\n    mov ${offset}, %r10d\n    jmp .Lhip_sim_first_{name}"
        )
        .expect(STRING);
    }
    let symbol = format!("hip_sim_first_calls_{name}");
    write!(
        text,
        "
    .section .data.rel.ro.{symbol}, \"aw\", @progbits
    .p2align 3
    .globl {symbol}
    .hidden {symbol}
    .type {symbol}, @object
{symbol}:
    .quad {size}
",
        size = offset(len)
    )
    .expect(STRING);
    for index in 0..len {
        writeln!(text, "    .quad .Lhip_sim_first_{name}_{index}").expect(STRING);
    }
    writeln!(
        text,
        "    .size {symbol}, {size}\n    .section .text.hip_sim_exports, \"ax\", @progbits",
        size = offset(len)
    )
    .expect(STRING);
}

/// `hip_sim_export_addresses`: the trampolines' own addresses. They use local labels, so that they cannot
/// resolve to another library's symbol of the same name.
fn addresses(text: &mut String, count: usize) {
    text.push_str(
        "
    .section .data.rel.ro.hip_sim_exports, \"aw\", @progbits
    .p2align 3
    .globl hip_sim_export_addresses
    .hidden hip_sim_export_addresses
    .type hip_sim_export_addresses, @object
hip_sim_export_addresses:
",
    );
    for number in 0..count {
        writeln!(text, "    .quad .Lhip_sim_export_{number}").expect(STRING);
    }
    writeln!(text, "    .size hip_sim_export_addresses, {}\n    .text", 8 * count).expect(STRING);
}
