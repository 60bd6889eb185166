// The kernels that several files of cases launch.

#include "device.hpp"
#include "kernels.hpp"

extern "C" __global__ void conf_affine(unsigned *data, unsigned count, unsigned factor, unsigned term) {
    unsigned i = global_thread();
    if (i < count) data[i] = data[i] * factor + term;
}

extern "C" __global__ void conf_copy(unsigned *to, const unsigned *from, unsigned count) {
    unsigned i = global_thread();
    if (i < count) to[i] = from[i];
}

static unsigned blocks(unsigned count) { return (count + BLOCK - 1) / BLOCK; }

void affine(hipStream_t stream, unsigned *data, unsigned count, unsigned factor, unsigned term) {
    conf_affine<<<blocks(count), BLOCK, 0, stream>>>(data, count, factor, term);
}

void copy(hipStream_t stream, unsigned *to, const unsigned *from, unsigned count) {
    conf_copy<<<blocks(count), BLOCK, 0, stream>>>(to, from, count);
}

const void *affine_kernel() { return reinterpret_cast<const void *>(conf_affine); }
