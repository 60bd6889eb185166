// Calls HIP directly (to clear the workspace) and through libdemo_kernels.so (to launch).

#include "demo_blas.h"
#include "demo_kernels.hpp"

static demo_blas_status status(hipError_t error) { return error == hipSuccess ? DEMO_BLAS_SUCCESS : DEMO_BLAS_FAILED; }

demo_blas_status demo_blas_axpy(unsigned size, unsigned alpha, const unsigned *x, unsigned *y, unsigned *workspace,
                                hipStream_t stream) {
    if (hipMemsetAsync(workspace, 0, size * sizeof(unsigned), stream) != hipSuccess) return DEMO_BLAS_FAILED;
    return status(demo::kernels::launch_scale_add(y, x, workspace, alpha, size, stream));
}

demo_blas_status demo_blas_mix(unsigned size, const unsigned *x, unsigned *y, hipStream_t stream) {
    return status(demo::kernels::launch_mix(y, x, size, stream));
}
