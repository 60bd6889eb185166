/* A HIP runtime that prints what it is called with. COPY names the copy; each has its own table of kernels. */
#include "hip.h"
#include <errno.h>
#include <stdio.h>

#define SAY(...) (printf(COPY " " __VA_ARGS__), putchar('\n'))

static const void *kernels[16];
static int kernel_count;

void **__hipRegisterFatBinary(const void *data) {
  static void *modules[1];
  SAY("__hipRegisterFatBinary %s", (const char *)data);
  return modules;
}

void __hipRegisterFunction(void **modules, const void *host, char *device, const char *name, unsigned limit,
                           void *tid, void *bid, dim3 *block, dim3 *grid, int *size) {
  SAY("__hipRegisterFunction %s %s %x %p %p %p %p %p", device, name, limit, tid, bid, (void *)block,
      (void *)grid, (void *)size);
  kernels[kernel_count++] = host;
}

void __hipUnregisterFatBinary(void **modules) { SAY("__hipUnregisterFatBinary %d", modules != NULL); }

static hipError_t launch(const void *function) {
  for (int i = 0; i < kernel_count; i++)
    if (kernels[i] == function) return 0;
  return 98;
}

hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                           hipStream_t stream) {
  SAY("hipLaunchKernel %x,%x,%x %x,%x,%x %p %zx %p", grid.x, grid.y, grid.z, block.x, block.y, block.z,
      (void *)args, shared, stream);
  return launch(function);
}

hipError_t hipLaunchKernel_spt(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                               hipStream_t stream) {
  SAY("hipLaunchKernel_spt %x,%x,%x %x,%x,%x %p %zx %p", grid.x, grid.y, grid.z, block.x, block.y, block.z,
      (void *)args, shared, stream);
  return launch(function);
}

hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags) {
  SAY("hipExtLaunchKernel %x,%x,%x %x,%x,%x %p %zx %p %p %p %x", grid.x, grid.y, grid.z, block.x, block.y,
      block.z, (void *)args, shared, stream, start, stop, flags);
  return launch(function);
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, hipStream_t stream, void **params,
                                 void **extra) {
  SAY("hipModuleLaunchKernel %p %x,%x,%x %x,%x,%x %x %p %p %p", function, gx, gy, gz, bx, by, bz, shared, stream,
      (void *)params, (void *)extra);
  return 1;
}

hipError_t hipMemset3DAsync(hipPitchedPtr place, int value, hipExtent extent, hipStream_t stream) {
  SAY("hipMemset3DAsync %p,%zx,%zx,%zx %x %zx,%zx,%zx %p", place.ptr, place.pitch, place.xsize, place.ysize,
      value, extent.width, extent.height, extent.depth, stream);
  return 2;
}

hipError_t hipMemPrefetchAsync_v2(const void *pointer, size_t count, hipMemLocation location, unsigned flags,
                                  hipStream_t stream) {
  SAY("hipMemPrefetchAsync_v2 %p %zx %x,%x %x %p", pointer, count, location.type, location.id, flags, stream);
  return 3;
}

hipError_t hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *desc, hipExtent extent,
                            unsigned flags) {
  SAY("hipMalloc3DArray %p %p %zx,%zx,%zx %x", (void *)array, (void *)desc, extent.width, extent.height,
      extent.depth, flags);
  return 4;
}

hipError_t hipIpcOpenMemHandle(void **pointer, hipIpcMemHandle_t handle, unsigned flags) {
  unsigned long sum = 0;
  for (int i = 0; i < 64; i++) sum = sum * 31 + handle.reserved[i];
  SAY("hipIpcOpenMemHandle %p %lx %x", (void *)pointer, sum, flags);
  return 5;
}

hipError_t hipTexRefSetMipmapLevelClamp(void *texture, float low, float high) {
  SAY("hipTexRefSetMipmapLevelClamp %p %a %a", texture, low, high);
  return 6;
}

hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, int f) {
  SAY("hipCreateChannelDesc %x %x %x %x %x", x, y, z, w, f);
  return (hipChannelFormatDesc){x + 1, y + 1, z + 1, w + 1, f + 1};
}

/* Uses its own API, as runtimes do, and leaves errno alone. */
hipError_t hipMalloc(void **pointer, size_t size) {
  SAY("hipMalloc %zx, errno %d", size, errno);
  *pointer = (void *)0x7000;
  return hipStreamSynchronize((hipStream_t)0x77);
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, int kind, hipStream_t stream) {
  SAY("hipMemcpyAsync %p %p %zx %x %p", to, from, size, kind, stream);
  return 0;
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  SAY("hipStreamSynchronize %p, errno %d", stream, errno);
  return 0;
}

const char *hipGetErrorString(hipError_t error) { return error == 98 ? "invalid device function" : "no error"; }
