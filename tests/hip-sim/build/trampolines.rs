//! The exported symbols as assembly: a frame's first and last instructions around a jump through the table.
//!
//! Genuine exports begin with `push %rbp`, an instruction that the kernel emulates when a uprobe sits on it instead
//! of single-stepping it. The jump leaves registers and stack arguments as the caller set them.

use std::fmt::Write as _;

use crate::api_list::Table;
use crate::exports::Export;

/// Assembly template for `global_asm!` with the operands `{runtime}` and `{compiler}`, the two tables.
pub(crate) fn assembly(exports: &[Export]) -> String {
    let mut text = String::from(".section .text.hip_sim_exports, \"ax\", @progbits\n");
    for (number, export) in exports.iter().enumerate() {
        trampoline(&mut text, number, export);
    }
    addresses(&mut text, exports.len());
    text
}

fn trampoline(text: &mut String, number: usize, export: &Export) {
    let symbol = &export.symbol;
    let table = match export.table {
        Table::Compiler => "{compiler}",
        Table::Runtime => "{runtime}",
    };
    // A table begins with its size in bytes.
    let offset = 8 + 8 * export.index;
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
    jmp *{table}+{offset}(%rip)
    .cfi_endproc
    .size {symbol}, .-{symbol}
"
    )
    .expect("writing to a string cannot fail");
}

/// `hip_sim_export_addresses`: the trampolines' own addresses, through local labels so that no other library's
/// symbol of the same name can be meant.
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
        writeln!(text, "    .quad .Lhip_sim_export_{number}").expect("writing to a string cannot fail");
    }
    writeln!(text, "    .size hip_sim_export_addresses, {}\n    .text", 8 * count)
        .expect("writing to a string cannot fail");
}
