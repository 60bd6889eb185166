//! The BPF programs, compiled by `build.rs` from `xsched-ebpf/src/bpf`: ELF objects, in memory as their readers want them;
//! and what they must be told of the kernel that they run in.

mod kernel_types;

pub use kernel_types::{KernelTypes, TypesError};

/// Aligned as an ELF file's own structures are.
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

/// The arbiter's programs.
pub static ARBITER: &[u8] = object!("xsched-ebpf-arbiter");

/// The programs that say whose a call is.
pub static ORIGIN: &[u8] = object!("xsched-ebpf-origin");
