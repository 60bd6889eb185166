// Functions of newer runtimes, and their replacements in older ones. Compiled for each runtime, with
// HIP_MAJOR.
//
// Names, values and layouts are HIP's. A structure is overwritten when its call returns.

#include <string.h>

#include "hip_subset.h"

namespace {

// Code that still reads the structure after the call is wrong.
template <typename T> void scribble(T &gone) {
    memset(&gone, 0x5a, sizeof gone);
    asm volatile("" : : "r"(&gone) : "memory");
}

} // namespace

extern "C" {

#if HIP_MAJOR >= 6

struct Attribute {
    unsigned id;
    unsigned pad;
    unsigned long long value[8];
};
enum { COOPERATIVE = 2, PRIORITY = 8 };

struct Config {
    dim3 grid, block;
    size_t lds_size;
    hipStream_t stream;
    Attribute *attributes;
    unsigned count;
};

struct DriverConfig {
    unsigned grid[3], block[3], lds_size;
    hipStream_t stream;
    Attribute *attributes;
    unsigned count;
};

// ROCm 6.4 does not export these two. Programs of its repertoire do not call them.
__attribute__((weak)) hipError_t hipLaunchKernelExC(const Config *config, const void *kernel, void **arguments);
__attribute__((weak)) hipError_t hipDrvLaunchKernelEx(const DriverConfig *config, hipFunction_t function, void **arguments,
                                                      void **extra);
hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *kernel);
hipError_t hipExtModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                                    unsigned block_y, unsigned block_z, size_t lds_size, hipStream_t stream,
                                    void **arguments, void **extra, hipEvent_t start, hipEvent_t stop, unsigned flags);

hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags);

hipError_t newer_record(hipEvent_t event, hipStream_t stream) { return hipEventRecordWithFlags(event, stream, 0); }

hipError_t newer_launch_by_config(const void *kernel, unsigned threads, void **arguments, hipStream_t stream,
                                  int is_cooperative) {
    Attribute attributes[3] = {{PRIORITY, 0, {}}, {COOPERATIVE, 0, {0}}, {COOPERATIVE, 0, {1}}};
    Config config = {dim3(1), dim3(threads), 0, stream, attributes, is_cooperative ? 3u : 0u};
    hipError_t error = hipLaunchKernelExC(&config, kernel, arguments);
    scribble(config);
    scribble(attributes);
    return error;
}

hipError_t newer_launch_not_cooperative(const void *kernel, unsigned threads, void **arguments, hipStream_t stream) {
    Attribute attributes[2] = {{PRIORITY, 0, {}}, {COOPERATIVE, 0, {0}}};
    Config config = {dim3(1), dim3(threads), 0, stream, attributes, 2};
    return hipLaunchKernelExC(&config, kernel, arguments);
}

hipError_t newer_launch_by_driver_config(hipFunction_t function, unsigned threads, void **arguments,
                                         hipStream_t stream) {
    DriverConfig config = {{1, 1, 1}, {threads, 1, 1}, 0, stream, nullptr, 0};
    hipError_t error = hipDrvLaunchKernelEx(&config, function, arguments, nullptr);
    scribble(config);
    return error;
}

hipError_t newer_launch_cooperative_by_driver_config(hipFunction_t function, unsigned threads, void **arguments,
                                                     hipStream_t stream) {
    Attribute attributes[2] = {{COOPERATIVE, 0, {1}}, {PRIORITY, 0, {1}}};
    DriverConfig config = {{1, 1, 1}, {threads, 1, 1}, 0, stream, attributes, 2};
    hipError_t error = hipDrvLaunchKernelEx(&config, function, arguments, nullptr);
    scribble(config);
    scribble(attributes);
    return error;
}

hipError_t newer_function_of_symbol(const void *kernel, hipFunction_t *function) {
    return hipGetFuncBySymbol(function, kernel);
}

#else

hipError_t hipLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, unsigned lds_size,
                                      hipStream_t stream);

hipError_t newer_launch_by_config(const void *kernel, unsigned threads, void **arguments, hipStream_t stream,
                                  int is_cooperative) {
    return is_cooperative ? hipLaunchCooperativeKernel(kernel, dim3(1), dim3(threads), arguments, 0, stream)
                          : hipLaunchKernel(kernel, dim3(1), dim3(threads), arguments, 0, stream);
}

hipError_t newer_launch_not_cooperative(const void *kernel, unsigned threads, void **arguments, hipStream_t stream) {
    return hipLaunchKernel(kernel, dim3(0), dim3(threads), arguments, 0, stream);
}

hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned lds_size,
                                            hipStream_t stream, void **arguments);

hipError_t newer_launch_cooperative_by_driver_config(hipFunction_t function, unsigned threads, void **arguments,
                                                     hipStream_t stream) {
    return hipModuleLaunchCooperativeKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, arguments);
}

hipError_t newer_launch_by_driver_config(hipFunction_t function, unsigned threads, void **arguments,
                                         hipStream_t stream) {
    return hipModuleLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
}

hipError_t newer_function_of_symbol(const void *, hipFunction_t *) { return hipSuccess; }

hipError_t newer_record(hipEvent_t event, hipStream_t stream) { return hipEventRecord(event, stream); }

#endif

#if HIP_MAJOR >= 7

typedef struct ihipLibrary_t *hipLibrary_t;
hipError_t hipLibraryLoadFromFile(hipLibrary_t *library, const char *path, void *jit_options, void **jit_values,
                                  unsigned jit_count, void *options, void **values, unsigned count);
hipError_t hipLibraryGetKernel(hipFunction_t *kernel, hipLibrary_t library, const char *name);
hipError_t hipMemcpy3DPeerAsync(const void *copy, hipStream_t stream);

hipError_t newer_function_of_library(const char *path, const char *name, hipFunction_t *function) {
    static hipLibrary_t library;
    if (!library) {
        hipError_t error = hipLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0);
        if (error != hipSuccess) return error;
    }
    return hipLibraryGetKernel(function, library, name);
}

hipError_t newer_copy_peer_box(const void *copy, hipStream_t stream) { return hipMemcpy3DPeerAsync(copy, stream); }

// `hipMemcpyAttributes`
struct CopyAttributes {
    unsigned order;
    int from[2], to[2];
    unsigned flags;
};
enum { ORDER_OF_STREAM = 1 };

hipError_t hipMemcpyBatchAsync(void **to, void **from, size_t *sizes, size_t count, CopyAttributes *attributes,
                               size_t *begins, size_t attribute_count, size_t *failed, hipStream_t stream);

hipError_t newer_copy_halves(void *to, void *from, size_t size, hipStream_t stream) {
    void *ends[2][2] = {{to, static_cast<char *>(to) + size / 2}, {from, static_cast<char *>(from) + size / 2}};
    size_t sizes[2] = {size / 2, size - size / 2}, begins[1] = {0}, failed = 0;
    CopyAttributes attributes = {ORDER_OF_STREAM, {}, {}, 0};
    hipError_t error = hipMemcpyBatchAsync(ends[0], ends[1], sizes, 2, &attributes, begins, 1, &failed, stream);
    scribble(ends);
    scribble(sizes);
    scribble(begins);
    scribble(attributes);
    return error;
}

hipError_t hipMemcpy3DBatchAsync(size_t count, void *copies, size_t *failed, unsigned long long flags,
                                 hipStream_t stream);

int newer_copy_boxes(size_t count, void *copies, hipStream_t stream) {
    size_t failed = 0;
    int error = hipMemcpy3DBatchAsync(count, copies, &failed, 0, stream);
    scribble(failed);
    return error;
}

// `hipStreamBatchMemOpParams`
struct WordOperation {
    unsigned operation;
    void *address;
    unsigned long long value;
    unsigned flags;
    unsigned long long unused[2];
};
enum { WAIT_32 = 1, WRITE_32 = 2, WRITE_64 = 5, AT_LEAST = 0 };

hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned count, WordOperation *operations, unsigned flags);

hipError_t newer_write_words(hipStream_t stream, void *word, unsigned value, unsigned long long wide) {
    WordOperation both[2] = {{WRITE_64, word, wide, 0, {}}, {WRITE_32, word, value, 0, {}}};
    hipError_t error = hipStreamBatchMemOp(stream, 2, both, 0);
    scribble(both);
    return error;
}

hipError_t newer_wait_for_word(hipStream_t stream, void *word, unsigned at_least) {
    WordOperation wait = {WAIT_32, word, at_least, AT_LEAST, {}};
    hipError_t error = hipStreamBatchMemOp(stream, 1, &wait, 0);
    scribble(wait);
    return error;
}

hipError_t hipMemsetD2D8Async(void *to, size_t pitch, unsigned char value, size_t width, size_t height,
                              hipStream_t stream);
hipError_t hipMemsetD2D16Async(void *to, size_t pitch, unsigned short value, size_t width, size_t height,
                               hipStream_t stream);
hipError_t hipMemsetD2D32Async(void *to, size_t pitch, unsigned value, size_t width, size_t height, hipStream_t stream);

hipError_t newer_fill_rows(void *to, size_t pitch, unsigned char value, size_t height, hipStream_t stream) {
    switch (value % 3) {
    case 0: return hipMemsetD2D8Async(to, pitch, value, pitch, height, stream);
    case 1: return hipMemsetD2D16Async(to, pitch, value * 0x101u, pitch / 2, height, stream);
    default: return hipMemsetD2D32Async(to, pitch, value * 0x1010101u, pitch / 4, height, stream);
    }
}

// `hipMemLocation`
struct Location {
    unsigned kind;
    int device;
};
enum { ON_DEVICE = 1 };

hipError_t hipMemPrefetchAsync_v2(const void *address, size_t size, Location location, unsigned flags,
                                  hipStream_t stream);

hipError_t newer_prefetch(void *address, size_t size, int device, hipStream_t stream) {
    return hipMemPrefetchAsync_v2(address, size, {ON_DEVICE, device}, 0, stream);
}

#else

hipError_t hipMemcpy3DAsync(const void *copy, hipStream_t stream);
hipError_t hipStreamWriteValue32(hipStream_t stream, void *word, unsigned value, unsigned flags);

hipError_t newer_copy_halves(void *to, void *from, size_t size, hipStream_t stream) {
    enum { BY_ADDRESS = 4 };
    return hipMemcpyAsync(to, from, size, static_cast<hipMemcpyKind>(BY_ADDRESS), stream);
}

int newer_copy_boxes(size_t, void *, hipStream_t) { return -1; }

hipError_t hipStreamWaitValue32(hipStream_t stream, void *word, unsigned value, unsigned flags, unsigned mask);
hipError_t hipMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream);
hipError_t hipMemPrefetchAsync(const void *address, size_t size, int device, hipStream_t stream);

hipError_t newer_write_words(hipStream_t stream, void *word, unsigned value, unsigned long long) {
    return hipStreamWriteValue32(stream, word, value, 0);
}

hipError_t newer_wait_for_word(hipStream_t stream, void *word, unsigned at_least) {
    enum { AT_LEAST = 0 };
    return hipStreamWaitValue32(stream, word, at_least, AT_LEAST, ~0u);
}

hipError_t newer_fill_rows(void *to, size_t pitch, unsigned char value, size_t height, hipStream_t stream) {
    return hipMemset2DAsync(to, pitch, value, pitch, height, stream);
}

hipError_t newer_prefetch(void *address, size_t size, int device, hipStream_t stream) {
    return hipMemPrefetchAsync(address, size, device, stream);
}

hipError_t newer_function_of_library(const char *, const char *, hipFunction_t *) { return hipSuccess; }

// The same without the devices: `hipMemcpy3DParms`.
hipError_t newer_copy_peer_box(const void *copy, hipStream_t stream) {
    struct End {
        size_t words[8];
    };
    struct Peer {
        End from;
        size_t from_device;
        End to;
        size_t to_device;
        size_t extent[3];
    };
    struct Box {
        End from, to;
        size_t extent[3];
        unsigned kind;
    };
    enum { DEVICE_TO_DEVICE = 3 };
    const Peer &peer = *static_cast<const Peer *>(copy);
    Box box = {peer.from, peer.to, {peer.extent[0], peer.extent[1], peer.extent[2]}, DEVICE_TO_DEVICE};
    hipError_t error = hipMemcpy3DAsync(&box, stream);
    scribble(box);
    return error;
}

#endif

#if HIP_MAJOR >= 6

hipError_t hipMemcpyHtoAAsync(void *array, size_t offset, const void *from, size_t size, hipStream_t stream);
hipError_t hipMemcpyAtoHAsync(void *to, void *array, size_t offset, size_t size, hipStream_t stream);

hipError_t newer_copy_to_array(void *array, void *from, size_t size, hipStream_t stream) {
    return hipMemcpyHtoAAsync(array, 0, from, size, stream);
}

hipError_t newer_copy_from_array(void *to, void *array, size_t size, hipStream_t stream) {
    return hipMemcpyAtoHAsync(to, array, 0, size, stream);
}

#else

enum { TO_DEVICE = 1, TO_HOST = 2 };
hipError_t hipMemcpy2DToArrayAsync(void *array, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                   size_t height, int kind, hipStream_t stream);
hipError_t hipMemcpy2DFromArrayAsync(void *to, size_t pitch, void *array, size_t x, size_t y, size_t width,
                                     size_t height, int kind, hipStream_t stream);

hipError_t newer_copy_to_array(void *array, void *from, size_t size, hipStream_t stream) {
    return hipMemcpy2DToArrayAsync(array, 0, 0, from, size, size, 1, TO_DEVICE, stream);
}

hipError_t newer_copy_from_array(void *to, void *array, size_t size, hipStream_t stream) {
    return hipMemcpy2DFromArrayAsync(to, size, array, 0, 0, size, 1, TO_HOST, stream);
}

#endif

// All releases export it only under its C++ name.
} // extern "C"
hipError_t hipHccModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                                    unsigned block_y, unsigned block_z, size_t lds_size, hipStream_t stream,
                                    void **arguments, void **extra, hipEvent_t start, hipEvent_t stop);
extern "C" {

hipError_t newer_launch_with_events_by_hcc(hipFunction_t function, unsigned threads, void **extra, hipStream_t stream,
                                           hipEvent_t start, hipEvent_t stop) {
    return hipHccModuleLaunchKernel(function, threads, 1, 1, threads, 1, 1, 0, stream, nullptr, extra, start, stop);
}

#if HIP_MAJOR < 6

// Called under its C++ name, since C does not declare it yet.
} // extern "C"
hipError_t hipExtModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                                    unsigned block_y, unsigned block_z, size_t lds_size, hipStream_t stream,
                                    void **arguments, void **extra, hipEvent_t start, hipEvent_t stop, unsigned flags);
extern "C" {

#endif

hipError_t newer_launch_with_events(hipFunction_t function, unsigned threads, void **arguments, hipStream_t stream,
                                    hipEvent_t start, hipEvent_t stop) {
    return hipExtModuleLaunchKernel(function, threads, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr, start, stop,
                                    0);
}

// `hipMemoryType`
unsigned newer_memory_type(int is_host, int is_array) {
#if HIP_MAJOR >= 6
    return is_array ? 10 : is_host ? 1 : 2;
#else
    return is_array ? 2 : is_host ? 0 : 1;
#endif
}
}
