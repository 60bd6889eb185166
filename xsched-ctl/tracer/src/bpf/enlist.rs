//! Adds a command to the list of watched processes before its first instruction.
//!
//! In a pid namespace the programs cannot determine the id of a child at its birth. The child itself can: between fork
//! and exec it still has the tracer's descriptors.

use std::io;
use std::os::fd::RawFd;

use aya_obj::generated::{bpf_attr, bpf_cmd};
use xsched_abi::Watched;

/// Adds the calling process to the list.
#[derive(Clone, Copy, Debug)]
pub struct Enlistment {
    /// Descriptor of the map `TARGETS`, which lives as long as the session.
    pub(super) targets: RawFd,
}

impl Enlistment {
    /// To be called between fork and exec: one system call, no allocation.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn enlist(self) -> io::Result<()> {
        let (key, value) = (std::process::id(), Watched::Stoppable as u8);
        // SAFETY: an all-zero bpf_attr is valid, and the kernel requires unused fields to be zero.
        let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: this arm of the union is the one of BPF_MAP_UPDATE_ELEM, and all its fields are plain data.
        let update = unsafe { &mut attr.__bindgen_anon_2 };
        update.map_fd = self.targets as u32;
        update.key = (&raw const key) as u64;
        update.__bindgen_anon_1.value = (&raw const value) as u64;
        let command = bpf_cmd::BPF_MAP_UPDATE_ELEM as libc::c_int;
        // SAFETY: `attr` is a complete bpf_attr whose pointers lead to a key and a value of the map's sizes.
        let error = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attr, size_of::<bpf_attr>()) };
        if error == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
