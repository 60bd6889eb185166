//! The exported symbols, as assembly that the build script generates, and their addresses.

use crate::api;
use crate::first_call;

core::arch::global_asm!(
    include_str!(concat!(env!("OUT_DIR"), "/trampolines.s")),
    runtime = sym first_call::ACTIVE_RUNTIME,
    compiler = sym first_call::ACTIVE_COMPILER,
    first_call = sym first_call::first_call,
    options(att_syntax)
);

unsafe extern "C" {
    /// The table that is active until the first call of a `__hip*` function: its entries call `first_call`.
    #[link_name = "hip_sim_first_calls_compiler"]
    pub(crate) static FIRST_CALLS_COMPILER: [usize; 1 + api::COMPILER_NAMES.len()];
    /// The same for `hip*`.
    #[link_name = "hip_sim_first_calls_runtime"]
    pub(crate) static FIRST_CALLS_RUNTIME: [usize; 1 + api::RUNTIME_NAMES.len()];
    /// Defined by the assembly, in the order of `api::EXPORTS`.
    #[link_name = "hip_sim_export_addresses"]
    static EXPORT_ADDRESSES: [usize; api::EXPORTS.len()];
}

/// Address of an exported symbol of the library of HIP major `major`; none if that library lacks it.
pub(crate) fn address(symbol: &str, major: u32) -> Option<usize> {
    let position = api::EXPORTS.iter().position(|(name, since)| *name == symbol && *since <= major)?;
    // SAFETY: the assembly defines the array with exactly this length, and nothing writes to it.
    let addresses = unsafe { &EXPORT_ADDRESSES };
    Some(addresses[position])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_begins_as_genuine_ones_do() {
        let address = address("hipLaunchKernel", 6).expect("every library exports it");
        // SAFETY: the address of a function of this program.
        let code = unsafe { core::slice::from_raw_parts(address as *const u8, 8) };
        // push %rbp; mov %rsp,%rbp; pop %rbp; mov ..(%rip),%r11
        assert_eq!(code, [0x55, 0x48, 0x89, 0xe5, 0x5d, 0x4c, 0x8b, 0x1d]);
    }

    #[test]
    fn a_function_is_missing_before_its_first_release() {
        assert!(address("hipLibraryLoadData", 6).is_none());
        assert!(address("hipLibraryLoadData", 7).is_some());
        assert!(address("hipNoSuchFunction", 7).is_none());
    }
}
