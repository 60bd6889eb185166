// Calls CUDA itself (to clear memory), and through libgpu_kernels.so (to launch).

#include "gpu_kernels.h"

CUresult gpu_blas_scale(CUdeviceptr memory, unsigned count, CUstream stream) {
    CUresult result = cuMemsetD8Async(memory, 0, count * sizeof(unsigned), stream);
    return result == CUDA_SUCCESS ? gpu_kernels_scale(memory, count, stream) : result;
}
