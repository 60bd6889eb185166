// Libraries between a program and HIP, under the names of AMD's: each launches its own kernels, on any stream
// that it is given. The program checks the results.

#ifndef CALLERS_H
#define CALLERS_H

#include "hip_subset.h"

// Size of the memory for `y[i] = step(y[i], key)`, and for two processes that wait for each other.
constexpr unsigned CALLERS_SIZE = 64;

__host__ __device__ inline unsigned callers_step_of(unsigned value, unsigned key) { return value * 1664525u + key; }

extern "C" {

// librocblas.so.4: a handle, whose creation allocates, fills, copies and launches; and a launch, directly and
// in a graph.
struct rocblas_handle;
int rocblas_create_handle(rocblas_handle **handle);
int rocblas_destroy_handle(rocblas_handle *handle);
int rocblas_sstep(rocblas_handle *handle, unsigned *y, unsigned key, hipStream_t stream);
int rocblas_sgraph(unsigned *y, unsigned key, hipStream_t stream);

// libMIOpen.so.1: tries three kernels on scratch memory, measures each with events, and returns the fastest.
int miopenFindConvolutionForwardAlgorithm(unsigned *scratch, hipStream_t stream, int *quickest, float *ms);

// librccl.so.1: launches a kernel that ends when those of all ranks have begun. `there` is memory shared by
// all of them.
int ncclAllReduce(volatile unsigned *there, unsigned rank, unsigned ranks, hipStream_t stream);

// libspeaker.so: launches after it has declared the domain of its calls.
int speaker_step(int domain, unsigned *y, unsigned key, hipStream_t stream);
int speaker_domain();
}

#endif
