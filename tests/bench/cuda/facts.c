/* Facts of the genuine driver on which gates for several contexts stand: registration of one page by several mappings, green contexts
 * and threads, events across them; and on which deferring stands: what is told of parameters. Prints `name value`; a code of 0 is success, 712 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED. */

#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "cuda_subset.h"
#include "kernels.h"

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green) __attribute__((weak));

CUresult cuKernelGetName(const char **name, CUkernel kernel) __attribute__((weak));
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size) __attribute__((weak));

static void *map(int file) {
    void *start = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (start == MAP_FAILED) exit(2);
    return start;
}

static int memory(void) {
    int file = memfd_create("gate", 0);
    if (ftruncate(file, 4096)) exit(2);
    return file;
}

#define SAY(name, value) printf("%-64s %d\n", name, (int)(value))

static CUcontext green_context;

static void *other_thread(void *unused) {
    (void)unused;
    CUcontext popped;
    SAY("push of a green context that is current elsewhere", cuCtxPushCurrent_v2(green_context));
    cuCtxPopCurrent_v2(&popped);
    return NULL;
}

/* Whether a stream waits at a closed word and goes on when it is opened: 1 if so, 0 if not, a negative code if it is refused. */
static int waits_at(CUstream stream, void *host, CUdeviceptr word) {
    *(volatile unsigned *)host = 0;
    CUresult code = cuStreamWaitValue32_v2(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ);
    if (code) return -(int)code;
    usleep(3000);
    int waited = cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
    *(volatile unsigned *)host = 1;
    double until = now_us() + 2e6;
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY && now_us() < until) usleep(100);
    return waited && cuStreamQuery(stream) == CUDA_SUCCESS;
}

/* What is told of `step`, which has two parameters: at 0 and 8, of 8 and 4 bytes. */
static void parameters(void) {
    CUmodule module;
    CUlibrary library;
    CUfunction function;
    CUkernel kernel;
    const char *name = NULL;
    size_t offset = 0, size = 0;
    CHECK(cuModuleLoadData(&module, KERNELS));
    CHECK(cuModuleGetFunction(&function, module, "step"));
    CHECK(cuLibraryLoadData(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "step"));
    SAY("a function's name", cuFuncGetName(&name, function));
    SAY("its last parameter", cuFuncGetParamInfo(function, 1, &offset, &size));
    SAY("its offset and size (804)", offset * 100 + size);
    SAY("behind its last parameter (1)", cuFuncGetParamInfo(function, 2, &offset, &size));
    SAY("a kernel's name, asked as a function", cuFuncGetName(&name, (CUfunction)kernel));
    SAY("its last parameter, asked as a function", cuFuncGetParamInfo((CUfunction)kernel, 1, &offset, &size));
    if (!cuKernelGetName || !cuKernelGetParamInfo) return;
    SAY("a kernel's name", cuKernelGetName(&name, kernel));
    offset = size = 0;
    SAY("its last parameter", cuKernelGetParamInfo(kernel, 1, &offset, &size));
    SAY("its offset and size (804)", offset * 100 + size);
    SAY("behind its last parameter (1)", cuKernelGetParamInfo(kernel, 2, &offset, &size));
}

int main(void) {
    CUcontext primary, second, third, of, popped;
    CUstream stream, in_second, in_green;
    CUdeviceptr word = 0, other = 0;
    CUgreenCtx green, its_green = NULL;
    CUdevResource all, group, rest;
    CUdevResourceDesc description;
    CUevent event, green_event;
    unsigned one = 1;
    int file = memory();
    void *a = map(file), *b = map(file), *c = map(file);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY("register a mapping (primary)", cuMemHostRegister_v2(a, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    SAY("register it again (primary)", cuMemHostRegister_v2(a, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&word, a, 0));
    SAY("a stream waits there (1: yes)", waits_at(stream, a, word));
    CHECK(cuCtxCreate_v2(&second, 0, 0));
    CHECK(cuStreamCreate(&in_second, CU_STREAM_NON_BLOCKING));
    SAY("register it in a second context", cuMemHostRegister_v2(a, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    SAY("device pointer of it in a second context", cuMemHostGetDevicePointer_v2(&other, a, 0));
    SAY("a stream of the second waits at the first's word (1: yes)", waits_at(in_second, a, word));
    SAY("register another mapping of the page in a second context", cuMemHostRegister_v2(b, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&other, b, 0));
    SAY("a stream of the second waits there, opened by the first mapping (1: yes)", waits_at(in_second, a, other));
    CHECK(cuCtxDestroy_v2(second));
    CHECK(cuCtxCreate_v2(&third, 0, 0));
    SAY("register that mapping in a third, after the second's end", cuMemHostRegister_v2(b, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuCtxDestroy_v2(third));
    CHECK(cuCtxSetCurrent(primary));
    if (cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM)) return 0;
    CHECK(cuDevSmResourceSplitByCount(&group, &one, &all, &rest, 0, 16));
    CHECK(cuDevResourceGenerateDesc(&description, &group, 1));
    CHECK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuCtxFromGreenCtx(&green_context, green));
    CHECK(cuCtxFromGreenCtx(&of, green));
    SAY("a green context has one handle (1: yes)", of == green_context);
    SAY("a stream of a green context", cuGreenCtxStreamCreate(&in_green, green, CU_STREAM_NON_BLOCKING, 0));
    SAY("its context is told", cuStreamGetCtx(in_green, &of));
    SAY("it is the green one's (1: yes)", of == green_context);
    if (cuStreamGetCtx_v2) {
        SAY("cuStreamGetCtx_v2", cuStreamGetCtx_v2(in_green, &of, &its_green));
        SAY("it tells primary and green (1: yes)", of == primary && its_green == green);
    }
    CHECK(cuEventCreate(&event, 0));
    SAY("primary current: an event of it on a green stream", cuEventRecord(event, in_green));
    SAY("primary current: the green stream is asked", cuStreamQuery(in_green));
    SAY("primary current: a green stream waits at the primary's word (1: yes)", waits_at(in_green, a, word));
    CHECK(cuCtxSetCurrent(green_context));
    SAY("green current: register a third mapping", cuMemHostRegister_v2(c, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    SAY("green current: it waits at the primary's word (1: yes)", waits_at(in_green, a, word));
    CHECK(cuEventCreate(&green_event, 0));
    CHECK(cuEventRecord(green_event, in_green));
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
    CHECK(cuCtxPushCurrent_v2(primary));
    SAY("primary current: an event of a green context is asked", cuEventQuery(green_event));
    float ms = 0;
    SAY("primary current: time between events of both", cuEventElapsedTime(&ms, event, green_event));
    CHECK(cuCtxPopCurrent_v2(&popped));
    CHECK(cuCtxSetCurrent(primary));
    SAY("a green context is destroyed", cuGreenCtxDestroy(green));
    SAY("its stream is asked afterwards", cuStreamQuery(in_green));
    SAY("its event is asked afterwards", cuEventQuery(green_event));
    SAY("register the third mapping in the primary, after the green one's end", cuMemHostRegister_v2(c, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    parameters();
    return 0;
}
