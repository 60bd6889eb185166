// Kernels of the suite, as functions that launch them: files of cases without their own kernel stay plain
// C++.

#pragma once

#include <hip/hip_runtime_api.h>

// Threads of a block in the launches below.
constexpr unsigned BLOCK = 64;

// data[i] = data[i] * factor + term: the result depends on the order of two of these.
void affine(hipStream_t stream, unsigned *data, unsigned count, unsigned factor, unsigned term);
// to[i] = from[i]
void copy(hipStream_t stream, unsigned *to, const unsigned *from, unsigned count);
// Host address of `affine`'s kernel, for calls that take one.
const void *affine_kernel();
