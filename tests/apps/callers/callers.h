// Libraries between a program and HIP, under the names of AMD's: each launches kernels of its own, on whatever stream it is
// given. What they compute is the program's to check.

#ifndef CALLERS_H
#define CALLERS_H

#include "hip_subset.h"

// Makes room for `y[i] = step(y[i], key)`, and for two processes that wait for each other.
constexpr unsigned CALLERS_SIZE = 64;

__host__ __device__ inline unsigned callers_step_of(unsigned value, unsigned key) { return value * 1664525u + key; }

extern "C" {

// librocblas.so.4: a handle, whose creation allocates, fills, copies and launches, and a launch, by itself and in a graph.
struct rocblas_handle;
int rocblas_create_handle(rocblas_handle **handle);
int rocblas_destroy_handle(rocblas_handle *handle);
int rocblas_sstep(rocblas_handle *handle, unsigned *y, unsigned key, hipStream_t stream);
int rocblas_sgraph(unsigned *y, unsigned key, hipStream_t stream);

// libMIOpen.so.1: tries three kernels on scratch memory, measures each by events, and names the quickest.
int miopenFindConvolutionForwardAlgorithm(unsigned *scratch, hipStream_t stream, int *quickest, float *ms);

// librccl.so.1: launches a kernel that ends when those of all ranks have begun. `there` is memory of all of them.
int ncclAllReduce(volatile unsigned *there, unsigned rank, unsigned ranks, hipStream_t stream);

// libspeaker.so: launches, after it has said which domain its calls are of.
int speaker_step(int domain, unsigned *y, unsigned key, hipStream_t stream);
int speaker_domain();
}

#endif
