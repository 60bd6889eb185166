// Copies, a stream and an event, on the null stream first.
#include "hip.h"

#define SIZE ((size_t)1 << 20)

int main(void) {
    open_runtime();
    char *from = malloc(SIZE), *to = calloc(1, SIZE);
    for (size_t i = 0; i < SIZE; i++) from[i] = (char)(i * 3);
    void *device = NULL, *stream = NULL, *pinned = NULL, *event = NULL;

    CALL(hipInit, 0);
    CALL(hipMalloc, &device, SIZE);
    CALL(hipMemcpy, device, from, SIZE, 1);
    CALL(hipMemcpy, to, device, SIZE, 2);
    printf("the copy is %s\n", memcmp(from, to, SIZE) ? "wrong" : "right");

    CALL(hipStreamCreate, &stream);
    CALL(hipHostMalloc, &pinned, SIZE, 0);
    CALL(hipMemcpyAsync, device, pinned, SIZE, 1, stream);
    CALL(hipEventCreate, &event);
    CALL(hipEventRecord, event, stream);
    CALL(hipEventSynchronize, event);
    CALL(hipMemsetAsync, device, 0, SIZE, stream);
    CALL(hipStreamSynchronize, stream);
    CALL(hipStreamDestroy, stream);
    CALL(hipFree, device);
    CALL(hipDeviceSynchronize);
    return 0;
}
