// As much of HIP's own header as XSched's examples use, so that these compile unchanged without ROCm.

#ifndef HIP_RUNTIME_H
#define HIP_RUNTIME_H

#include "hip_subset.h"

extern "C" hipError_t hipStreamCreate(hipStream_t *stream);

template <typename T> hipError_t hipMalloc(T **address, size_t size) {
    return hipMalloc(reinterpret_cast<void **>(address), size);
}

#ifdef __HIP__
#define threadIdx (dim3(__builtin_amdgcn_workitem_id_x()))
#define blockIdx (dim3(__builtin_amdgcn_workgroup_id_x()))
#define blockDim (dim3(__builtin_amdgcn_workgroup_size_x()))
#endif

#endif
