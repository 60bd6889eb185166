// rocBLAS by itself, on two streams: products in single, half and mixed precision, and what is not made of Tensile's kernels.
#include "said.h"
#include <rocblas/rocblas.h>
#include <time.h>

// Products as fast as the host makes them, with a wait behind each hundred, for so many seconds.
static int timed(double seconds, rocblas_handle handle, hipStream_t stream, float *a, float *b, float *c, int n) {
    const float one = 1, zero = 0;
    unsigned long count = 0;
    timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    double took = 0;
    OK(rocblas_set_stream(handle, stream));
    while (took < seconds && !failures) {
        for (int i = 0; i < 100; i++, count++)
            OK(rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_transpose, n, n, n, &one, a, n, b, n, &zero, c, n));
        OK(hipStreamSynchronize(stream));
        clock_gettime(CLOCK_MONOTONIC, &now);
        took = now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) * 1e-9;
    }
    printf("%.1f products a second\n", count / took);
    return ended();
}

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const int n = 192;
    const size_t size = (size_t)n * n * sizeof(float);
    const float one = 1, zero = 0;
    float *a, *b, *c, norm = -1;
    rocblas_handle handle;
    hipStream_t streams[2];
    SAY(rocblas_create_handle(&handle));
    for (int i = 0; i < 2; i++) SAY(hipStreamCreateWithFlags(&streams[i], hipStreamNonBlocking));
    SAY(hipMalloc((void **)&a, size));
    SAY(hipMalloc((void **)&b, size));
    SAY(hipMalloc((void **)&c, size));
    SAY(hipMemset(a, 0, size));
    if (argc > 1) return timed(atof(argv[1]), handle, streams[0], a, b, c, n);
    for (int i = 0; i < ROUNDS; i++) {
        OK(rocblas_set_stream(handle, streams[i % 2]));
        OK(rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_transpose, n, n, n, &one, a, n, b, n, &zero, c, n));
        OK(rocblas_gemm_ex(handle, rocblas_operation_none, rocblas_operation_none, n, n, n, &one, a, rocblas_datatype_f16_r, n,
                           b, rocblas_datatype_f16_r, n, &zero, c, rocblas_datatype_f32_r, n, c, rocblas_datatype_f32_r, n,
                           rocblas_datatype_f32_r, rocblas_gemm_algo_standard, 0, 0));
        OK(rocblas_sger(handle, n, n, &one, a, 1, b, 1, c, n));
        OK(rocblas_ssyrk(handle, rocblas_fill_upper, rocblas_operation_none, n, n, &one, a, n, &zero, c, n));
    }
    SAY(rocblas_snrm2(handle, n * n, a, 1, &norm));
    for (int i = 0; i < 2; i++) SAY(hipStreamSynchronize(streams[i]));
    SAY(hipGetLastError());
    SAY(rocblas_destroy_handle(handle));
    for (int i = 0; i < 2; i++) SAY(hipStreamDestroy(streams[i]));
    return ended();
}
