//! Kernels that wait on the device for other devices: stopping one stops all of them, so they are never suspended.
//!
//! The built-in rules name such libraries; the shim for CUDA knows the kernel's name only, not the library that launches it.

/// Parts of their names, by the library that has them.
const PARTS: [&str; 17] = [
    // NCCL; those of its symmetric memory as of 2.27, and as of 2.28 (`src/device/symmetric/generate.py`).
    "ncclDevKernel",
    "ncclKernel",
    "ncclSymDevKernel",
    "ncclSymkDevKernel",
    "nvshmem",
    // vLLM and SGLang.
    "cross_device_reduce_",
    "allreduce_prototype_",
    // PyTorch's symmetric memory: `CUDASymmetricMemory.cu`, `CUDASymmetricMemoryOps.cu`.
    "_shot_all_reduce_kernel",
    "multimem_one_shot_reduce_kernel",
    "multimem_all_",
    "wait_signal_kernel",
    "put_signal_kernel",
    "barrier_kernel",
    // FlashInfer and TensorRT-LLM: `allreduce_fusion_kernel_oneshot_lamport`, `twoShotAllReduceKernel`.
    "allreduce_fusion_kernel",
    "ShotAllReduceKernel",
    // Transformer Engine; Triton-distributed.
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
        for name in [
            "_Z23ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "_Z44ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf1614ncclSymDevArgs",
            "_Z41ncclSymkDevKernel_ReduceScatter_LL_sum_f3221ncclSymkDevWorkArgs4K",
            "_ZN4vllm26cross_device_reduce_1stageI6__halfLi2EEEvv",
            "_ZN12_GLOBAL__N_126multimem_all_gather_kernelILi16EEEvPcS1_mPPjmm",
            "_ZN12_GLOBAL__N_126two_shot_all_reduce_kernelIfLi16ELi8EEEvPT_mmPPjmm",
            "_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportIfEEvv",
            "_ZN12tensorrt_llm7kernels22twoShotAllReduceKernelIfLi8EEEvv",
        ] {
            assert!(is_collective(name), "{name}");
        }
        for name in [
            "_ZN2at6native29vectorized_elementwise_kernelILi4EEEviT0_T1_",
            "_ZN2at6native13reduce_kernelILi512ELi1EEEvT1_",
            "ampere_sgemm_128x64_tn",
        ] {
            assert!(!is_collective(name), "{name}");
        }
    }
}
