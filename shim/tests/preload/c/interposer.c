/* Another preloaded library that takes launches, as profilers of the older kind do. */
#define _GNU_SOURCE
#include "hip.h"
#include <dlfcn.h>
#include <stdio.h>

hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                           hipStream_t stream) {
  puts("interposer");
  return ((hipError_t(*)(const void *, dim3, dim3, void **, size_t, hipStream_t))dlsym(
      RTLD_NEXT, "hipLaunchKernel"))(function, grid, block, args, shared, stream);
}
