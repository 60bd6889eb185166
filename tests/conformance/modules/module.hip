// Device code alone, for programs that load it by name.

#include "device.hpp"

extern "C" {

__device__ unsigned module_variable[3] = {10, 20, 30};

__global__ void module_affine(unsigned *data, unsigned count, unsigned factor, unsigned term) {
    unsigned i = global_thread();
    if (i < count) data[i] = data[i] * factor + term;
}

// Keeps the variable in the code object, and is a kernel without arguments.
__global__ void module_touch() { module_variable[0]++; }
}
