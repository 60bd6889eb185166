// The kernels, and the calls to them that only a compiler generates.

#include "hip_subset.h"
#include "kernels.h"

extern "C" {

__global__ void diff_mix(unsigned *to, const unsigned *from, unsigned key) {
    unsigned i = global_thread_x();
    if (i < WORDS) to[i] = mixed(to[i], from[i], key);
}

__global__ void diff_wide(Wide wide) {
    unsigned i = global_thread_x();
    if (i < WORDS) wide.to[i] = mixed(wide.to[i], wide.from[i], key_of(wide));
}

__global__ void diff_many(unsigned char a, unsigned *to, unsigned short b, const unsigned *from, double c, unsigned d,
                          unsigned long long e, float f, unsigned char g, unsigned key) {
    unsigned i = global_thread_x();
    if (i < WORDS) to[i] = mixed(to[i], from[i], key_of(a, b, c, d, e, f, g, key));
}

__global__ void diff_nothing() {}

// A row for each stream that copies through it.
__device__ unsigned diff_rows[ROWS][WORDS];
}

namespace {

const void *const KERNELS[] = {
    reinterpret_cast<const void *>(diff_mix),
    reinterpret_cast<const void *>(diff_wide),
    reinterpret_cast<const void *>(diff_many),
    reinterpret_cast<const void *>(diff_nothing),
};

template <typename T> T &argument(void **arguments, int index) { return *static_cast<T *>(arguments[index]); }

} // namespace

extern "C" {

// The host address of a kernel.
const void *diff_kernel(unsigned kernel) { return KERNELS[kernel]; }

// The host address of the variable.
const void *diff_variable() { return diff_rows; }

// `<<<..>>>` with arguments in the form of `hipLaunchKernel`.
void diff_chevrons(unsigned kernel, void **a, hipStream_t stream) {
    switch (kernel) {
    case 0:
        diff_mix<<<1, WORDS, 0, stream>>>(argument<unsigned *>(a, 0), argument<const unsigned *>(a, 1),
                                          argument<unsigned>(a, 2));
        break;
    case 1: diff_wide<<<1, WORDS, 0, stream>>>(argument<Wide>(a, 0)); break;
    case 2:
        diff_many<<<1, WORDS, 0, stream>>>(
            argument<unsigned char>(a, 0), argument<unsigned *>(a, 1), argument<unsigned short>(a, 2),
            argument<const unsigned *>(a, 3), argument<double>(a, 4), argument<unsigned>(a, 5),
            argument<unsigned long long>(a, 6), argument<float>(a, 7), argument<unsigned char>(a, 8),
            argument<unsigned>(a, 9));
        break;
    default: diff_nothing<<<1, WORDS, 0, stream>>>();
    }
}
}
