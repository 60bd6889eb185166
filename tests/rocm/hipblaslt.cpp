// hipBLASLt: the heuristic's algorithms for a product in half precision, each in turn.
#include "said.h"
#include <hipblaslt/hipblaslt.h>

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const int n = 256;
    const float one = 1, zero = 0;
    const size_t size = size_t(n) * n * 2;
    size_t workspace = 32 << 20;
    void *a, *b, *c, *w;
    hipStream_t stream;
    hipblasLtHandle_t handle;
    SAY(hipblasLtCreate(&handle));
    SAY(hipStreamCreate(&stream));
    SAY(hipMalloc(&a, size));
    SAY(hipMalloc(&b, size));
    SAY(hipMalloc(&c, size));
    SAY(hipMalloc(&w, workspace));
    hipblasLtMatrixLayout_t layout;
    hipblasLtMatmulDesc_t product;
    hipblasLtMatmulPreference_t preference;
    SAY(hipblasLtMatrixLayoutCreate(&layout, HIP_R_16F, n, n, n));
    SAY(hipblasLtMatmulDescCreate(&product, HIPBLAS_COMPUTE_32F, HIP_R_32F));
    SAY(hipblasLtMatmulPreferenceCreate(&preference));
    SAY(hipblasLtMatmulPreferenceSetAttribute(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                              sizeof workspace));
    hipblasLtMatmulHeuristicResult_t found[4];
    int count = 0;
    SAY(hipblasLtMatmulAlgoGetHeuristic(handle, product, layout, layout, layout, layout, preference, 4, found, &count));
    printf("algorithms %d\n", count);
    for (int i = 0; i < ROUNDS && count; i++)
        OK(hipblasLtMatmul(handle, product, &one, a, layout, b, layout, &zero, c, layout, c, layout, &found[i % count].algo,
                           w, workspace, stream));
    SAY(hipStreamSynchronize(stream));
    SAY(hipGetLastError());
    SAY(hipblasLtDestroy(handle));
    SAY(hipStreamDestroy(stream));
    return ended();
}
