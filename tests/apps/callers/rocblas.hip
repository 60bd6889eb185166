// A library with its own state: creating a handle uses all kinds of HIP calls.

#include <cstdlib>

#include "callers.h"

struct rocblas_handle {
    unsigned *workspace;
    hipStream_t stream;
};

extern "C" {

__global__ void callers_step(unsigned *y, unsigned key) {
    unsigned i = global_thread_x();
    if (i < CALLERS_SIZE) y[i] = callers_step_of(y[i], key);
}

int rocblas_sstep(rocblas_handle *, unsigned *y, unsigned key, hipStream_t stream) {
    callers_step<<<1, CALLERS_SIZE, 0, stream>>>(y, key);
    return hipGetLastError();
}

int rocblas_sgraph(unsigned *y, unsigned key, hipStream_t stream) {
    hipStream_t own = nullptr;
    hipGraph_t graph = nullptr;
    hipGraphExec_t made = nullptr;
    hipError_t error = hipStreamCreateWithFlags(&own, hipStreamNonBlocking);
    if (!error) error = hipStreamBeginCapture(own, hipStreamCaptureModeThreadLocal);
    if (!error) error = hipError_t(rocblas_sstep(nullptr, y, key, own));
    if (!error) error = hipStreamEndCapture(own, &graph);
    if (!error) error = hipGraphInstantiate(&made, graph, nullptr, nullptr, 0);
    if (!error) error = hipGraphLaunch(made, stream);
    if (!error) error = hipStreamSynchronize(stream);
    if (!error) error = hipGraphExecDestroy(made);
    if (!error) error = hipGraphDestroy(graph);
    if (!error) error = hipStreamDestroy(own);
    return error;
}

int rocblas_create_handle(rocblas_handle **made) {
    constexpr size_t BYTES = CALLERS_SIZE * sizeof(unsigned);
    auto *handle = static_cast<rocblas_handle *>(std::calloc(1, sizeof(rocblas_handle)));
    unsigned ones[CALLERS_SIZE], back[CALLERS_SIZE];
    for (unsigned &one : ones) one = 1;
    hipError_t error = hipStreamCreateWithFlags(&handle->stream, hipStreamNonBlocking);
    if (!error) error = hipMalloc(reinterpret_cast<void **>(&handle->workspace), BYTES);
    if (!error) error = hipMemsetAsync(handle->workspace, 0, BYTES, handle->stream);
    if (!error) error = hipMemcpyAsync(handle->workspace, ones, BYTES, hipMemcpyHostToDevice, handle->stream);
    if (!error) error = hipError_t(rocblas_sstep(handle, handle->workspace, 5, handle->stream));
    if (!error) error = hipStreamSynchronize(handle->stream);
    if (!error) error = hipMemcpy(back, handle->workspace, BYTES, hipMemcpyDeviceToHost);
    if (!error && back[CALLERS_SIZE - 1] != callers_step_of(1, 5)) error = hipError_t(999);
    *made = handle;
    return error;
}

int rocblas_destroy_handle(rocblas_handle *handle) {
    hipError_t error = hipFree(handle->workspace);
    if (!error) error = hipStreamDestroy(handle->stream);
    std::free(handle);
    return error;
}
}
