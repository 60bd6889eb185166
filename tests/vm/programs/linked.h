// The HIP 5.2 functions that linked programs of the virtual machine use. They have no prototypes, since ROCm's headers are not
// installed; the calls define the parameters. Linked, since the shim intercepts a runtime without dispatch tables by symbols.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIP(name) extern int name();
HIP(hipDeviceSynchronize)
HIP(hipEventCreate)
HIP(hipEventDestroy)
HIP(hipEventElapsedTime)
HIP(hipEventQuery)
HIP(hipEventRecord)
HIP(hipEventSynchronize)
HIP(hipFree)
HIP(hipGetDevice)
HIP(hipGetLastError)
HIP(hipGraphDestroy)
HIP(hipGraphExecDestroy)
HIP(hipGraphInstantiate)
HIP(hipGraphLaunch)
HIP(hipHostFree)
HIP(hipHostMalloc)
HIP(hipMalloc)
HIP(hipMemcpy)
HIP(hipMemcpy2DAsync)
HIP(hipMemcpyAsync)
HIP(hipMemcpyDtoHAsync)
HIP(hipMemcpyHtoDAsync)
HIP(hipMemsetAsync)
HIP(hipModuleGetFunction)
HIP(hipModuleLaunchKernel)
HIP(hipModuleLoadData)
HIP(hipModuleUnload)
HIP(hipPeekAtLastError)
HIP(hipSetDevice)
HIP(hipStreamAddCallback)
HIP(hipStreamBeginCapture)
HIP(hipStreamCreate)
HIP(hipStreamCreateWithFlags)
HIP(hipStreamDestroy)
HIP(hipStreamEndCapture)
HIP(hipStreamQuery)
HIP(hipStreamSynchronize)
HIP(hipStreamWaitEvent)

enum { TO_DEVICE = 1, TO_HOST = 2, NON_BLOCKING = 1 };

// Prints the result of a call.
#define SAY(name, ...) printf("%s = %d\n", #name, name(__VA_ARGS__))

// A call that must succeed; it prints nothing, so that threads may use it.
#define OK(name, ...)                                                                                                  \
    do {                                                                                                               \
        int error_ = name(__VA_ARGS__);                                                                                \
        if (error_) {                                                                                                  \
            printf("%s:%d: %s = %d\n", __FILE__, __LINE__, #name, error_);                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// 64-bit FNV-1a.
__attribute__((unused)) static uint64_t digest(const void *memory, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)memory)[i]) * 0x100000001b3u;
    return hash;
}
