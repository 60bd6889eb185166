//! Kernels that wait on the device for other devices: stopping one stops all of them, so they are never suspended.
//!
//! The built-in rules name such libraries; the shim for CUDA knows the kernel's name only, not the library that launches it.

/// Parts of their names: NCCL, NVSHMEM, the all-reduce of vLLM and SGLang, symmetric memory of PyTorch, Transformer Engine.
const PARTS: [&str; 10] = [
    "ncclDevKernel",
    "ncclKernel",
    "nvshmem",
    "cross_device_reduce_",
    "allreduce_prototype_",
    "_shot_all_reduce_kernel",
    "wait_signal_kernel",
    "put_signal_kernel",
    "userbuffers_",
    "barrier_all_",
];

/// Whether a kernel of this name waits for other devices.
pub(crate) fn is_collective(name: &str) -> bool {
    PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collective_is_known_by_its_name() {
        assert!(is_collective(
            "_Z23ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"
        ));
        assert!(!is_collective("_ZN2at6native29vectorized_elementwise_kernelILi4EEEviT0_T1_"));
    }
}
