// hipBLAS above rocBLAS: create, and the kinds of products that applications make. `hipblas SECONDS` repeats small bursts for that
// long, as urgent work beside another program.
#include "said.h"
#include <hipblas/hipblas.h>
#include <time.h>
#include <unistd.h>
#include <vector>

static double now() {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const int n = 256;
    const size_t size = (size_t)n * n * sizeof(float);
    const float one = 1, zero = 0;
    float *a, *b, *c, dot = -1;
    hipblasHandle_t handle;
    hipStream_t stream;
    SAY(hipblasCreate(&handle));
    SAY(hipStreamCreate(&stream));
    SAY(hipblasSetStream(handle, stream));
    std::vector<float> host(n * n);
    for (int i = 0; i < n * n; i++) host[i] = float(i % 7);
    SAY(hipMalloc((void **)&a, size));
    SAY(hipMalloc((void **)&b, size));
    SAY(hipMalloc((void **)&c, size));
    SAY(hipMemcpy(a, host.data(), size, hipMemcpyHostToDevice));
    SAY(hipMemcpy(b, host.data(), size, hipMemcpyHostToDevice));
    SAY(hipblasSgemm(handle, HIPBLAS_OP_N, HIPBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
    if (argc > 1) {
        puts("ready");
        for (double end = now() + atof(argv[1]); now() < end; usleep(1000)) {
            for (int i = 0; i < 2 * ROUNDS; i++)
                OK(hipblasSgemm(handle, HIPBLAS_OP_N, HIPBLAS_OP_T, n, n, n, &one, a, n, b, n, &zero, c, n));
            OK(hipStreamSynchronize(stream));
        }
        return ended();
    }
    for (int i = 0; i < ROUNDS; i++) {
        OK(hipblasSgemm(handle, HIPBLAS_OP_N, HIPBLAS_OP_T, n, n, n, &one, a, n, b, n, &zero, c, n));
        OK(hipblasSgemmStridedBatched(handle, HIPBLAS_OP_N, HIPBLAS_OP_N, 64, 64, 64, &one, a, 64, 4096, b, 64, 4096,
                                      &zero, c, 64, 4096, 8));
        OK(hipblasSaxpy(handle, n * n, &one, a, 1, c, 1));
        OK(hipblasSgemv(handle, HIPBLAS_OP_N, n, n, &one, a, n, b, 1, &zero, c, 1));
    }
    SAY(hipblasSdot(handle, n * n, a, 1, b, 1, &dot));
    SAY(hipblasStrsm(handle, HIPBLAS_SIDE_LEFT, HIPBLAS_FILL_MODE_LOWER, HIPBLAS_OP_N, HIPBLAS_DIAG_UNIT, n, n, &one, a, n,
                     c, n));
    SAY(hipStreamSynchronize(stream));
    SAY(hipMemcpy(host.data(), c, size, hipMemcpyDeviceToHost));
    SAY(hipGetLastError());
    SAY(hipblasDestroy(handle));
    SAY(hipStreamDestroy(stream));
    SAY(hipFree(a));
    SAY(hipFree(b));
    SAY(hipFree(c));
    return ended();
}
