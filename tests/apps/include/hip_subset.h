// The part of HIP's public interface that these programs use, so that they build without ROCm's headers.
//
// Names, values and layouts are HIP's; declarations that clang itself requires are marked. Included by host
// and device code.

#ifndef HIP_SUBSET_H
#define HIP_SUBSET_H

#include <stddef.h>

#ifdef __HIP__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#else
#define __host__
#define __device__
#endif

// Clang constructs one from the numbers in `<<<grid, block>>>`.
struct dim3 {
    unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

enum hipError_t { hipSuccess = 0 };
enum hipMemcpyKind { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2 };
enum { hipStreamNonBlocking = 1, hipMallocSignalMemory = 2, hipStreamWaitValueGte = 0, hipHostRegisterMapped = 2 };
enum hipStreamCaptureMode { hipStreamCaptureModeThreadLocal = 1 };

typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct hipGraphNode *hipGraphNode_t;

extern "C" {
hipError_t hipMalloc(void **address, size_t size);
hipError_t hipHostMalloc(void **address, size_t size, unsigned flags);
hipError_t hipExtMallocWithFlags(void **address, size_t size, unsigned flags);
hipError_t hipFree(void *address);
hipError_t hipHostFree(void *address);
hipError_t hipMemcpy(void *to, const void *from, size_t size, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemset(void *to, int value, size_t size);
hipError_t hipMemsetAsync(void *to, int value, size_t size, hipStream_t stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipHostRegister(void *address, size_t size, unsigned flags);
hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags);
hipError_t hipStreamWaitValue64(hipStream_t stream, void *word, unsigned long value, unsigned flags, unsigned long mask);
hipError_t hipStreamWriteValue64(hipStream_t stream, void *word, unsigned long value, unsigned flags);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipGraphInstantiate(hipGraphExec_t *made, hipGraph_t graph, hipGraphNode_t *error_node, char *log, size_t size);
hipError_t hipGraphLaunch(hipGraphExec_t graph, hipStream_t stream);
hipError_t hipGraphExecDestroy(hipGraphExec_t graph);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *ms, hipEvent_t begin, hipEvent_t end);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipSetDevice(int device);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipDeviceSynchronize(void);
hipError_t hipDeviceReset(void);
hipError_t hipGetDevice(int *device);
hipError_t hipGetLastError(void);
const char *hipGetErrorName(hipError_t error);
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned lds_size,
                                 hipStream_t stream, void **arguments, void **extra);

// Clang's kernel stubs and `<<<..>>>` call these two.
hipError_t hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t lds_size,
                           hipStream_t stream);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds_size = 0, hipStream_t stream = nullptr);
}

#ifdef __HIP__
// This thread's position in a grid of one dimension.
__device__ inline unsigned global_thread_x() {
    return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
}
#endif

#endif
