// Coordinates of a thread from the compiler's own functions: the suite needs no device library.

#pragma once

#include <hip/hip_version.h>

// Since ROCm 6 the header takes two of the compiler's device headers, which use functions of those that are left out.
#if HIP_VERSION_MAJOR >= 6
__attribute__((device)) float max(float, float);
__attribute__((device)) double max(double, double);
#endif

#include <hip/hip_runtime.h>

// The compiler's own wrapper defines it, but is left out with the other device headers.
#ifndef __managed__
#define __managed__ __attribute__((managed))
#endif

__device__ inline unsigned block_x() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ inline unsigned thread_x() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline unsigned block_size_x() { return __builtin_amdgcn_workgroup_size_x(); }

// Number of a thread in a launch of one dimension.
__device__ inline unsigned global_thread() { return block_x() * block_size_x() + thread_x(); }
