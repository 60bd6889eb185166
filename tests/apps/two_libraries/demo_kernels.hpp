// libdemo_kernels.so: contains the kernels and launches them; the library directly above HIP.

#ifndef DEMO_KERNELS_HPP
#define DEMO_KERNELS_HPP

#include "hip_subset.h"

namespace demo::kernels {

// y += alpha * x + workspace, and leaves the workspace dirty. `T` is unsigned.
template <typename T>
hipError_t launch_scale_add(T *y, const T *x, T *workspace, T alpha, unsigned size, hipStream_t stream);

// Rotates y by 3 bits and mixes x in. `T` is unsigned.
template <typename T> hipError_t launch_mix(T *y, const T *x, unsigned size, hipStream_t stream);

} // namespace demo::kernels

#endif
