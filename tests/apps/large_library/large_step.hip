// A library whose caller of HIP has no symbol once it is stripped. `cargo xtask bench rate` gives it a gigabyte of device code.

#include "hip_subset.h"

static __global__ void large_step(unsigned *y) {
    if (y) *y += 1;
}

static __attribute__((noinline)) hipError_t launch(hipStream_t stream) {
    large_step<<<1, 64, 0, stream>>>(nullptr);
    return hipGetLastError();
}

extern "C" int large_launch(hipStream_t stream) { return launch(stream); }
