// A library with its own kernel, built twice. Each brings its own copy of the runtime into the process, and
// its kernel is registered only there. KERNEL and FACTOR distinguish them.

#include <vector>

#include "program.hpp"
#include "plugin_steps.h"

extern "C" __global__ void KERNEL(unsigned *y, unsigned key, unsigned size) {
    unsigned i = global_thread_x();
    if (i < size) y[i] = step_element(y[i], FACTOR, key);
}

constexpr unsigned SIZE = 256;

// No call may leave an error with the thread that is not its own.
#define CALL(call) CHECK(call), CHECK(hipGetLastError())

// Launches alternately on two streams, and waits now and then; returns whether memory then holds the expected result.
extern "C" bool plugin_run(unsigned launches, unsigned seed) {
    unsigned *device, *host;
    hipStream_t streams[2];
    hipEvent_t event;
    CALL(hipMalloc(reinterpret_cast<void **>(&device), sizeof(unsigned) * SIZE));
    CALL(hipHostMalloc(reinterpret_cast<void **>(&host), sizeof(unsigned) * SIZE, 0));
    for (hipStream_t &stream : streams) CALL(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    CALL(hipEventCreate(&event));

    std::vector<unsigned> expected(SIZE);
    for (unsigned i = 0; i < SIZE; i++) host[i] = expected[i] = i ^ seed;
    CALL(hipMemcpyAsync(device, host, sizeof(unsigned) * SIZE, hipMemcpyHostToDevice, streams[0]));
    for (unsigned n = 0; n < launches; n++) {
        hipStream_t stream = streams[n % 2];
        CALL(hipEventRecord(event, streams[(n + 1) % 2]));
        if (n > 0) CALL(hipStreamWaitEvent(stream, event, 0));
        KERNEL<<<1, SIZE, 0, stream>>>(device, n + seed, SIZE);
        CHECK(hipGetLastError());
        if (n % 4 == 3) CALL(hipStreamSynchronize(stream));
        for (unsigned &element : expected) element = step_element(element, FACTOR, n + seed);
    }
    hipStream_t last = streams[(launches + 1) % 2];
    CALL(hipMemcpyAsync(host, device, sizeof(unsigned) * SIZE, hipMemcpyDeviceToHost, last));
    CALL(hipStreamSynchronize(last));
    bool is_right = std::equal(expected.begin(), expected.end(), host);

    CALL(hipEventDestroy(event));
    for (hipStream_t stream : streams) CALL(hipStreamDestroy(stream));
    CALL(hipHostFree(host));
    CALL(hipFree(device));
    return is_right;
}
