//! Names of the runtimes' error codes.

mod cuda;
mod hip;

use xsched_abi::Runtime;

/// Name of the `hipError_t` or `CUresult` with this value, as in the runtime's headers; none for an unknown value.
pub(crate) fn name(runtime: Runtime, code: u32) -> Option<&'static str> {
    let names = match runtime {
        Runtime::Hip => hip::NAMES,
        Runtime::Cuda => cuda::NAMES,
    };
    names.binary_search_by_key(&code, |&(value, _)| value).ok().map(|index| names[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        for names in [hip::NAMES, cuda::NAMES] {
            assert!(names.is_sorted_by_key(|&(code, _)| code));
        }
        let found = Runtime::ALL.map(|runtime| [98, 97, 209].map(|code| name(runtime, code)));
        let hip = [Some("hipErrorInvalidDeviceFunction"), None, Some("hipErrorNoBinaryForGpu")];
        assert_eq!(found, [hip, [None, None, Some("CUDA_ERROR_NO_BINARY_FOR_GPU")]]);
    }
}
