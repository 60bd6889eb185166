/* libdemo_blas.so: a library on top of libdemo_kernels.so, with HIP calls of its own. */

#ifndef DEMO_BLAS_H
#define DEMO_BLAS_H

#include "hip_subset.h"

enum demo_blas_status { DEMO_BLAS_SUCCESS = 0, DEMO_BLAS_FAILED = 1 };

extern "C" {

/* y += alpha * x, element by element. The workspace has `size` elements and is cleared by the call. */
demo_blas_status demo_blas_axpy(unsigned size, unsigned alpha, const unsigned *x, unsigned *y, unsigned *workspace,
                                hipStream_t stream);

/* Mixes x into y. */
demo_blas_status demo_blas_mix(unsigned size, const unsigned *x, unsigned *y, hipStream_t stream);
}

#endif
