//! The BPF programs, compiled by `build.rs` from `xsched-ebpf/src/bpf`: ELF objects, aligned for their readers. Also the
//! offsets in the running kernel's types that the programs need.

mod kernel_types;
#[cfg(test)]
mod verifier;

pub use kernel_types::{KernelTypes, TypesError};

/// Aligned like the structures of an ELF file.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

macro_rules! object {
    ($name:literal) => {{
        static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".o")));
        &OBJECT.0
    }};
}

/// The tracer's programs.
pub static TRACER: &[u8] = object!("xsched-ebpf");

/// The tracer's programs that also write messages.
pub static TRACER_WITH_LOGS: &[u8] = object!("xsched-ebpf-logs");

/// The arbiter's programs.
pub static ARBITER: &[u8] = object!("xsched-ebpf-arbiter");

/// The programs that determine the verdict on a call by its call chain.
pub static ORIGIN: &[u8] = object!("xsched-ebpf-origin");
