/* The part of HIP's API that the test programs use. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
typedef void *hipStream_t, *hipEvent_t, *hipFunction_t, *hipArray_t, *hipDeviceptr_t;
typedef struct { uint32_t x, y, z; } dim3;
typedef struct { size_t width, height, depth; } hipExtent;
typedef struct { void *ptr; size_t pitch, xsize, ysize; } hipPitchedPtr;
typedef struct { int type, id; } hipMemLocation;
typedef struct { unsigned char reserved[64]; } hipIpcMemHandle_t;
typedef struct { int x, y, z, w, f; } hipChannelFormatDesc;

void **__hipRegisterFatBinary(const void *data);
void __hipRegisterFunction(void **modules, const void *host, char *device, const char *name,
                           unsigned limit, void *tid, void *bid, dim3 *block, dim3 *grid, int *size);
void __hipUnregisterFatBinary(void **modules);
hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                           hipStream_t stream);
hipError_t hipLaunchKernel_spt(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                               hipStream_t stream);
hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, hipStream_t stream, void **params,
                                 void **extra);
hipError_t hipMemset3DAsync(hipPitchedPtr place, int value, hipExtent extent, hipStream_t stream);
hipError_t hipMemPrefetchAsync_v2(const void *pointer, size_t count, hipMemLocation location, unsigned flags,
                                  hipStream_t stream);
hipError_t hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *desc, hipExtent extent, unsigned flags);
hipError_t hipIpcOpenMemHandle(void **pointer, hipIpcMemHandle_t handle, unsigned flags);
hipError_t hipTexRefSetMipmapLevelClamp(void *texture, float low, float high);
hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, int f);
hipError_t hipMalloc(void **pointer, size_t size);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, int kind, hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
const char *hipGetErrorString(hipError_t error);
