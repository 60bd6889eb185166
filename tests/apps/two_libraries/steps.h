// The kernels' computation on one element in `two_libraries`, shared by kernels, twins and the host's check.
//
// The steps do not commute, so a launch that is lost, repeated or reordered changes the result.

#ifndef STEPS_H
#define STEPS_H

#include "hip_subset.h"

// Argument passed by value to the program's own kernel.
struct DirectStep {
    unsigned factor;
    // Makes a wrongly copied structure visible.
    unsigned char padding[3];
    unsigned long long addend;
};

// Argument passed by value to the library's templated kernel.
template <typename T> struct Scale {
    T alpha;
    unsigned size;
};

__host__ __device__ inline unsigned direct_element(unsigned y, unsigned x, const DirectStep &step) {
    return y * step.factor + x + static_cast<unsigned>(step.addend);
}

template <typename T> __host__ __device__ inline T scale_add_element(T y, T x, T alpha) { return y + alpha * x; }

template <typename T, int Rotation> __host__ __device__ inline T mix_element(T y, T x) {
    return ((y << Rotation) | (y >> (sizeof(T) * 8 - Rotation))) ^ x;
}

__host__ __device__ inline unsigned module_element(unsigned y, unsigned x, unsigned key) { return (y ^ key) + 7 * x; }

#endif
