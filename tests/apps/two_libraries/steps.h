// What the kernels of `two_libraries` do to an element, shared by kernels, twins and the host's check.
//
// The steps do not commute: a launch that is lost, repeated or overtaken shows in the result.

#ifndef STEPS_H
#define STEPS_H

#include "hip_subset.h"

// Argument by value of the program's own kernel.
struct DirectStep {
    unsigned factor;
    // Makes a wrongly copied structure show.
    unsigned char padding[3];
    unsigned long long addend;
};

// Argument by value of the library's templated kernel.
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
