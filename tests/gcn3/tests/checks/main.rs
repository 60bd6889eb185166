//! The executor against others: its decoder against LLVM's disassembler, what kernels compute against the same in Rust.

#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]
#![expect(clippy::float_cmp, reason = "results are compared as bits, or exactly")]
#![expect(clippy::many_single_char_names, reason = "the names are the kernels'")]

mod clang;
mod compute;
mod device;
mod disassembly;
mod random;
mod support;
