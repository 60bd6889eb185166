// The plugins' kernels' computation on one element, shared with their twins. Repetition changes the result of
// either.

#ifndef PLUGIN_STEPS_H
#define PLUGIN_STEPS_H

constexpr unsigned FACTOR_A = 5, FACTOR_B = 9;

__host__ __device__ constexpr unsigned step_element(unsigned y, unsigned factor, unsigned key) {
    return y * factor + key;
}

#endif
