// Templated kernels in a namespace, so that their names need demangling.

#include "demo_kernels.hpp"
#include "steps.h"

namespace demo::kernels {

constexpr unsigned BLOCK = 64;
constexpr unsigned DIRT = 0xdeadbeef;

template <typename T> __global__ void scale_add(T *y, const T *x, T *workspace, Scale<T> scale) {
    unsigned i = global_thread_x();
    if (i >= scale.size) return;
    y[i] = scale_add_element<T>(y[i], x[i], scale.alpha) + workspace[i];
    workspace[i] = DIRT;
}

template <typename T, int Rotation> __global__ void mix(T *y, const T *x, unsigned size) {
    unsigned i = global_thread_x();
    if (i < size) y[i] = mix_element<T, Rotation>(y[i], x[i]);
}

static unsigned blocks(unsigned size) { return (size + BLOCK - 1) / BLOCK; }

template <typename T>
hipError_t launch_scale_add(T *y, const T *x, T *workspace, T alpha, unsigned size, hipStream_t stream) {
    scale_add<T><<<blocks(size), BLOCK, 0, stream>>>(y, x, workspace, Scale<T>{alpha, size});
    return hipGetLastError();
}

template <typename T> hipError_t launch_mix(T *y, const T *x, unsigned size, hipStream_t stream) {
    mix<T, 3><<<blocks(size), BLOCK, 0, stream>>>(y, x, size);
    return hipGetLastError();
}

template hipError_t launch_scale_add(unsigned *, const unsigned *, unsigned *, unsigned, unsigned, hipStream_t);
template hipError_t launch_mix(unsigned *, const unsigned *, unsigned, hipStream_t);

} // namespace demo::kernels
