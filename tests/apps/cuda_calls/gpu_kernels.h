// The two libraries below `cuda_calls`: libgpu_blas.so calls libgpu_kernels.so, which launches.

#pragma once

#include "cuda_subset.h"

extern "C" {
// libgpu_kernels.so
CUresult gpu_kernels_scale(CUdeviceptr memory, unsigned count, CUstream stream);
// libgpu_blas.so
CUresult gpu_blas_scale(CUdeviceptr memory, unsigned count, CUstream stream);
}
