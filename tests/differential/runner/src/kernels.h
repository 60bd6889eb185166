// The kernels' computations: the same for the device and for their twins in the simulator.

#ifndef KERNELS_H
#define KERNELS_H

#ifndef __HIP__
#define __device__
#define __host__
#endif

constexpr unsigned WORDS = 64;
constexpr unsigned ROWS = 16;
constexpr unsigned WIDE_WORDS = 38;

// A structure passed by value, larger than any register or small buffer.
struct Wide {
    unsigned *to;
    const unsigned *from;
    unsigned words[WIDE_WORDS];
};

// Not commutative, so that a swap of two kernels changes the result.
__host__ __device__ inline unsigned mixed(unsigned to, unsigned from, unsigned key) {
    unsigned word = (to ^ (from >> 3 | from << 29)) * 0x9e3779b1u + key;
    return word ^ word >> 15;
}

// A number that depends on every word of the structure.
__host__ __device__ inline unsigned key_of(const Wide &wide) {
    unsigned key = 0;
    for (unsigned word : wide.words) key = key * 31 + word;
    return key;
}

// A number that depends on every argument of `diff_many`.
__host__ __device__ inline unsigned key_of(unsigned char a, unsigned short b, double c, unsigned d,
                                           unsigned long long e, float f, unsigned char g, unsigned key) {
    unsigned all = a;
    all = all * 31 + b;
    all = all * 31 + static_cast<unsigned>(c);
    all = all * 31 + d;
    all = all * 31 + static_cast<unsigned>(e ^ e >> 32);
    all = all * 31 + static_cast<unsigned>(f);
    all = all * 31 + g;
    return all * 31 + key;
}

#endif
