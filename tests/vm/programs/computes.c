// Kernels whose results are checked: compiled at run time, on several streams, each working on what others have computed.
// Prints how many results are right, and a digest of all.
#include <dlfcn.h>

#include "linked.h"

#define COUNT 1024
#define ROUNDS 8

static const char *const SOURCE =
    "extern \"C\" __global__ void saxpy(float a, const float *x, float *y, int n) {"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;"
    "    if (i < n) y[i] = a * x[i] + y[i];"
    "}"
    "extern \"C\" __global__ void mix(const unsigned *from, unsigned *to, unsigned key) {"
    "    __shared__ unsigned values[256];"
    "    unsigned i = threadIdx.x, at = blockIdx.x * 256 + i;"
    "    values[i] = from[at] * 2654435761u + key;"
    "    __syncthreads();"
    "    unsigned sum = 0;"
    "    for (unsigned step = 0; step < (i & 15) + 1; step++) sum = sum * 33 + values[(i * 7 + step) & 255];"
    "    to[at] = sum ^ values[255 - i];"
    "}"
    // An array that data index lies in private memory, of which the queue has none at first.
    "extern \"C\" __global__ void shuffle(const unsigned *from, unsigned *to) {"
    "    unsigned values[64], at = blockIdx.x * 256 + threadIdx.x, seed = from[at], result = 0;"
    "    for (unsigned i = 0; i < 64; i++) values[i] = seed = seed * 1664525u + 1013904223u;"
    "    for (unsigned i = 0; i < 64; i++) {"
    "        unsigned other = values[i] >> 26, kept = values[i];"
    "        values[i] = values[other];"
    "        values[other] = kept;"
    "    }"
    "    for (unsigned i = 0; i < 64; i++) result = result * 31 + values[i];"
    "    to[at] = result;"
    "}"
    "extern \"C\" __global__ void count(const unsigned *from, unsigned *counts) { atomicAdd(&counts[from[blockIdx.x * 256 + threadIdx.x] & 15], 1u); }";

// A function of hiprtc, which the runtime's library exports.
static int (*hiprtc(const char *name))() {
    int (*found)() = (int (*)())dlsym(RTLD_DEFAULT, name);
    if (!found) {
        printf("no %s\n", name);
        exit(2);
    }
    return found;
}

static void *compiled(void) {
    void *program = NULL, *module = NULL;
    // Of the device: the virtual machine's, unless the environment names another.
    const char *named = getenv("COMPUTES_ARCH");
    char architecture[64];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", named ? named : "gfx803");
    const char *options[] = {architecture};
    size_t size = 0;
    if (hiprtc("hiprtcCreateProgram")(&program, SOURCE, "kernels.hip", 0, NULL, NULL)) exit(2);
    if (hiprtc("hiprtcCompileProgram")(program, 1, options)) exit(2);
    if (hiprtc("hiprtcGetCodeSize")(program, &size)) exit(2);
    char *code = malloc(size);
    if (hiprtc("hiprtcGetCode")(program, code)) exit(2);
    OK(hipModuleLoadData, &module, code);
    return module;
}

// What `mix` computes, for one block.
static void mixed(const unsigned *from, unsigned *to, unsigned key) {
    unsigned values[256];
    for (unsigned i = 0; i < 256; i++) values[i] = from[i] * 2654435761u + key;
    for (unsigned i = 0; i < 256; i++) {
        unsigned sum = 0;
        for (unsigned step = 0; step < (i & 15) + 1; step++) sum = sum * 33 + values[(i * 7 + step) & 255];
        to[i] = sum ^ values[255 - i];
    }
}

static void check_saxpy(void *module) {
    static float x[COUNT], y[COUNT], result[COUNT];
    void *kernel, *on_x, *on_y;
    OK(hipModuleGetFunction, &kernel, module, "saxpy");
    OK(hipMalloc, &on_x, sizeof x);
    OK(hipMalloc, &on_y, sizeof y);
    for (int i = 0; i < COUNT; i++) x[i] = i, y[i] = 3 * i;
    OK(hipMemcpy, on_x, x, sizeof x, TO_DEVICE);
    OK(hipMemcpy, on_y, y, sizeof y, TO_DEVICE);
    float a = 2;
    int n = COUNT;
    void *arguments[] = {&a, &on_x, &on_y, &n};
    OK(hipModuleLaunchKernel, kernel, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL);
    OK(hipMemcpy, result, on_y, sizeof result, TO_HOST);
    int right = 0;
    for (int i = 0; i < COUNT; i++) right += result[i] == a * x[i] + y[i];
    printf("saxpy: %d of %d results are right\n", right, COUNT);
}

// From stream to stream: each round computes with the results of the one before.
static void check_streams(void *module) {
    static unsigned host[COUNT], expected[2][COUNT], result[COUNT], counts[16], counted[16];
    void *mix, *count, *streams[2], *events[2], *buffers[2], *on_counts;
    OK(hipModuleGetFunction, &mix, module, "mix");
    OK(hipModuleGetFunction, &count, module, "count");
    for (int i = 0; i < 2; i++) {
        OK(hipStreamCreateWithFlags, &streams[i], NON_BLOCKING);
        OK(hipEventCreate, &events[i]);
        OK(hipMalloc, &buffers[i], sizeof host);
    }
    OK(hipMalloc, &on_counts, sizeof counts);
    for (unsigned i = 0; i < COUNT; i++) expected[0][i] = host[i] = i * 77;
    OK(hipMemcpy, on_counts, counts, sizeof counts, TO_DEVICE);
    OK(hipMemcpyAsync, buffers[0], host, sizeof host, TO_DEVICE, streams[0]);
    OK(hipEventRecord, events[0], streams[0]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned from = round % 2, to = 1 - from, key = round * 1000 + 1;
        void *arguments[] = {&buffers[from], &buffers[to], &key};
        void *to_count[] = {&buffers[to], &on_counts};
        OK(hipStreamWaitEvent, streams[to], events[from], 0);
        OK(hipModuleLaunchKernel, mix, COUNT / 256, 1, 1, 256, 1, 1, 0, streams[to], arguments, NULL);
        OK(hipModuleLaunchKernel, count, COUNT / 256, 1, 1, 256, 1, 1, 0, streams[to], to_count, NULL);
        OK(hipEventRecord, events[to], streams[to]);
        for (int block = 0; block < COUNT / 256; block++)
            mixed(expected[from] + block * 256, expected[to] + block * 256, key);
        for (int i = 0; i < COUNT; i++) counted[expected[to][i] & 15]++;
    }
    OK(hipDeviceSynchronize);
    OK(hipMemcpy, result, buffers[ROUNDS % 2], sizeof result, TO_HOST);
    OK(hipMemcpy, counts, on_counts, sizeof counts, TO_HOST);
    int right = 0, right_counts = 0;
    unsigned digest = 0;
    for (int i = 0; i < COUNT; i++) right += result[i] == expected[ROUNDS % 2][i], digest = digest * 31 + result[i];
    for (int i = 0; i < 16; i++) right_counts += counts[i] == counted[i];
    printf("streams: %d of %d results and %d of 16 counts are right, digest %08x\n", right, COUNT, right_counts, digest);
}

// What `shuffle` computes, for one work item.
static unsigned shuffled(unsigned seed) {
    unsigned values[64], result = 0;
    for (unsigned i = 0; i < 64; i++) values[i] = seed = seed * 1664525u + 1013904223u;
    for (unsigned i = 0; i < 64; i++) {
        unsigned other = values[i] >> 26, kept = values[i];
        values[i] = values[other];
        values[other] = kept;
    }
    for (unsigned i = 0; i < 64; i++) result = result * 31 + values[i];
    return result;
}

static void check_private(void *module) {
    static unsigned host[COUNT], result[COUNT];
    void *shuffle, *from, *to;
    OK(hipModuleGetFunction, &shuffle, module, "shuffle");
    OK(hipMalloc, &from, sizeof host);
    OK(hipMalloc, &to, sizeof result);
    for (unsigned i = 0; i < COUNT; i++) host[i] = i * 12345;
    OK(hipMemcpy, from, host, sizeof host, TO_DEVICE);
    void *arguments[] = {&from, &to};
    OK(hipModuleLaunchKernel, shuffle, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL);
    OK(hipMemcpy, result, to, sizeof result, TO_HOST);
    int right = 0;
    for (int i = 0; i < COUNT; i++) right += result[i] == shuffled(host[i]);
    printf("private memory: %d of %d results are right\n", right, COUNT);
}

// Memory that kernels of the runtime itself set.
static void check_memset(void) {
    static unsigned char bytes[COUNT];
    void *memory;
    OK(hipMalloc, &memory, sizeof bytes);
    OK(hipMemsetAsync, memory, 0x5a, sizeof bytes, NULL);
    OK(hipMemcpy, bytes, memory, sizeof bytes, TO_HOST);
    int right = 0;
    for (int i = 0; i < COUNT; i++) right += bytes[i] == 0x5a;
    printf("memset: %d of %d bytes are right\n", right, COUNT);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    void *module = compiled();
    check_saxpy(module);
    check_streams(module);
    check_private(module);
    check_memset();
    return 0;
}
