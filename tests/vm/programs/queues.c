// Work on several streams with dependencies by events, the null stream and host functions, and calls that are refused. Prints
// every return code that does not depend on time, and digests of the data that the host reads.
//
// Launches show only in return codes; `computes` checks what kernels compute.
#include "linked.h"

#define SIZE ((size_t)64 << 10)
#define ROUNDS 12

struct Step {
    unsigned char *memory;
    unsigned key;
};

// Changes memory so that the result depends on the order and the number of steps. ROCm 5.2 has no hipLaunchHostFunc yet.
static void step(void *stream, int status, void *data) {
    struct Step *step = data;
    (void)stream;
    for (size_t i = 0; i < SIZE; i++) step->memory[i] = (unsigned char)(step->memory[i] * 5 + step->key + i + status);
}

// Loads the module from memory that the program reuses before the first launch.
static void *loaded(void) {
    FILE *file = fopen("saxpy.co", "rb");
    void *module = NULL;
    if (!file) exit(2);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *code = malloc(size);
    if (fread(code, 1, size, file) != size) exit(2);
    fclose(file);
    OK(hipModuleLoadData, &module, code);
    memset(code, 0xee, size);
    free(code);
    return module;
}

// From stream to stream and back: each round works on the result of the previous one.
static void chain(void *kernel) {
    void *blocking, *first, *second, *ready, *done, *start;
    void *device, *between, *x, *y;
    unsigned char *host, *middle;
    OK(hipStreamCreate, &blocking);
    OK(hipStreamCreateWithFlags, &first, NON_BLOCKING);
    OK(hipStreamCreateWithFlags, &second, NON_BLOCKING);
    for (int i = 0; i < 3; i++) OK(hipEventCreate, ((void **[]){&ready, &done, &start})[i]);
    for (int i = 0; i < 4; i++) OK(hipMalloc, ((void **[]){&device, &between, &x, &y})[i], SIZE);
    OK(hipHostMalloc, &host, SIZE, 0);
    OK(hipHostMalloc, &middle, SIZE, 0);
    for (size_t i = 0; i < SIZE; i++) host[i] = (unsigned char)(i * 3);

    static struct Step steps[2 * ROUNDS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct Step *own = &steps[2 * round];
        own[0] = (struct Step){middle, round + 1};
        own[1] = (struct Step){host, 2 * round + 1};
        float a = 2;
        int n = SIZE / sizeof a;
        void *arguments[] = {&a, &x, &y, &n};

        OK(hipEventRecord, start, first);
        OK(hipMemcpyAsync, device, host, SIZE, TO_DEVICE, first);
        OK(hipModuleLaunchKernel, kernel, 16, 1, 1, 256, 1, 1, 0, first, arguments, NULL);
        OK(hipMemcpyDtoHAsync, middle, device, SIZE, first);
        OK(hipEventRecord, ready, first);
        // A deferred launch must not read these arguments later.
        a = 0, n = 0, arguments[1] = arguments[2] = NULL;

        OK(hipStreamWaitEvent, second, ready, 0);
        OK(hipStreamAddCallback, second, step, &own[0], 0);
        OK(hipMemcpyHtoDAsync, between, middle, SIZE, second);
        OK(hipEventRecord, done, second);

        OK(hipStreamWaitEvent, blocking, done, 0);
        OK(hipMemcpy2DAsync, host, SIZE / 16, between, SIZE / 16, SIZE / 16, (size_t)16, TO_HOST, blocking);
        // The null stream waits for earlier work of blocking streams, and their later work waits for it.
        OK(hipStreamAddCallback, NULL, step, &own[1], 0);
        OK(hipMemsetAsync, y, 0, SIZE, NULL);
        OK(hipEventRecord, done, blocking);
        OK(hipStreamWaitEvent, first, done, 0);
        if (round % 4 == 3) {
            OK(hipStreamSynchronize, first);
            OK(hipStreamSynchronize, second);
            printf("round %u: %016llx %016llx\n", round, (unsigned long long)digest(host, SIZE),
                   (unsigned long long)digest(middle, SIZE));
        }
    }
    float ms = -1;
    OK(hipEventSynchronize, done);
    SAY(hipEventQuery, done);
    SAY(hipEventElapsedTime, &ms, start, done);
    printf("time %s\n", ms >= 0 ? "passed" : "went back");
    SAY(hipStreamQuery, first);
    SAY(hipStreamQuery, NULL);

    // Destroyed and freed while work may be pending.
    unsigned char *last;
    OK(hipHostMalloc, &last, SIZE, 0);
    OK(hipMemcpyAsync, device, middle, SIZE, TO_DEVICE, first);
    OK(hipMemcpyAsync, last, device, SIZE, TO_HOST, first);
    SAY(hipStreamDestroy, first);
    SAY(hipFree, device);
    SAY(hipDeviceSynchronize);
    printf("last: %016llx\n", (unsigned long long)digest(last, SIZE));
    SAY(hipStreamDestroy, second);
    SAY(hipStreamDestroy, blocking);
    SAY(hipEventDestroy, ready);
    SAY(hipHostFree, host);
}

// A graph that is captured, and launched twice.
static void graph(void) {
    void *stream, *graph = NULL, *exec = NULL, *device;
    unsigned char *from, *to;
    OK(hipStreamCreateWithFlags, &stream, NON_BLOCKING);
    OK(hipMalloc, &device, SIZE);
    OK(hipHostMalloc, &from, SIZE, 0);
    OK(hipHostMalloc, &to, SIZE, 0);
    memset(from, 0x5a, SIZE);
    memset(to, 0, SIZE);
    SAY(hipStreamBeginCapture, stream, 0);
    SAY(hipMemcpyAsync, device, from, SIZE, TO_DEVICE, stream);
    SAY(hipMemcpyAsync, to, device, SIZE, TO_HOST, stream);
    SAY(hipStreamEndCapture, stream, &graph);
    SAY(hipGraphInstantiate, &exec, graph, NULL, NULL, (size_t)0);
    for (int i = 0; i < 2; i++) {
        SAY(hipGraphLaunch, exec, stream);
        SAY(hipStreamSynchronize, stream);
        printf("graph: %016llx\n", (unsigned long long)digest(to, SIZE));
        memset(from, 0x77 + i, SIZE);
    }
    SAY(hipGraphExecDestroy, exec);
    SAY(hipGraphDestroy, graph);
    SAY(hipStreamDestroy, stream);
}

// Copies to the device and back in a thread, from pageable and pinned memory.
static void *copies(void *data) {
    unsigned char *pageable = malloc(SIZE), *pinned;
    void *stream, *device, *other;
    OK(hipSetDevice, 0);
    OK(hipStreamCreate, &stream);
    OK(hipMalloc, &device, SIZE);
    OK(hipMalloc, &other, SIZE);
    OK(hipHostMalloc, &pinned, SIZE, 0);
    for (size_t i = 0; i < SIZE; i++) pageable[i] = (unsigned char)(i + *(unsigned *)data);
    for (unsigned round = 0; round < ROUNDS; round++) {
        OK(hipMemcpyAsync, device, pageable, SIZE, TO_DEVICE, stream);
        pageable[round]++;
        OK(hipMemcpyAsync, pinned, device, SIZE, TO_HOST, stream);
        struct Step step_of_round = {pinned, round};
        OK(hipStreamAddCallback, stream, step, &step_of_round, 0);
        OK(hipMemcpyAsync, other, pinned, SIZE, TO_DEVICE, stream);
        OK(hipMemcpyAsync, pageable, other, SIZE, TO_HOST, stream);
        OK(hipStreamSynchronize, stream);
    }
    uint64_t *result = malloc(sizeof *result);
    *result = digest(pageable, SIZE);
    OK(hipStreamDestroy, stream);
    return result;
}

static void threads(void) {
    pthread_t thread[2];
    unsigned seeds[2] = {3, 4};
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, copies, &seeds[i]);
    for (int i = 0; i < 2; i++) {
        void *result;
        pthread_join(thread[i], &result);
        printf("thread %d: %016llx\n", i, (unsigned long long)*(uint64_t *)result);
    }
}

// Calls that are refused at once, whatever is deferred before them.
static void mistakes(void *module, void *kernel) {
    void *stream, *device, *function = NULL, *event;
    unsigned char *pinned;
    OK(hipStreamCreateWithFlags, &stream, NON_BLOCKING);
    OK(hipMalloc, &device, SIZE);
    OK(hipHostMalloc, &pinned, SIZE, 0);
    OK(hipEventCreate, &event);
    OK(hipMemcpyAsync, device, pinned, SIZE, TO_DEVICE, stream);
    SAY(hipMemcpyAsync, NULL, pinned, SIZE, TO_DEVICE, stream);
    SAY(hipMemcpyAsync, device, pinned, SIZE, 77, stream);
    SAY(hipMemcpyAsync, device, pinned, (size_t)0, TO_DEVICE, stream);
    SAY(hipMemsetAsync, NULL, 1, SIZE, stream);
    SAY(hipMemsetAsync, device, 1, 2 * SIZE, stream);
    SAY(hipEventRecord, NULL, stream);
    SAY(hipEventElapsedTime, NULL, event, event);
    SAY(hipStreamWaitEvent, stream, NULL, 0);
    SAY(hipStreamWaitEvent, stream, event, 0);
    SAY(hipStreamAddCallback, stream, NULL, NULL, 0);
    SAY(hipModuleGetFunction, &function, module, "nosuch");
    float a = 1;
    int n = 1;
    void *arguments[] = {&a, &device, &device, &n};
    SAY(hipModuleLaunchKernel, kernel, 1, 1, 1, 4096, 1, 1, 0, stream, arguments, NULL);
    SAY(hipModuleLaunchKernel, kernel, 1, 1, 1, 64, 1, 1, 1 << 20, stream, arguments, NULL);
    SAY(hipModuleLaunchKernel, kernel, 0, 1, 1, 64, 1, 1, 0, stream, arguments, NULL);
    SAY(hipModuleLaunchKernel, NULL, 1, 1, 1, 64, 1, 1, 0, stream, arguments, NULL);
    SAY(hipGetLastError);
    SAY(hipSetDevice, 7);
    SAY(hipPeekAtLastError);
    SAY(hipMalloc, NULL, SIZE);
    SAY(hipMalloc, &function, (size_t)1 << 50);
    SAY(hipFree, (void *)0x1234);
    SAY(hipGetLastError);
    SAY(hipGetLastError);
    SAY(hipStreamSynchronize, stream);
    SAY(hipModuleUnload, module);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    void *module = loaded(), *kernel = NULL;
    OK(hipModuleGetFunction, &kernel, module, "saxpy");
    chain(kernel);
    graph();
    threads();
    mistakes(module, kernel);
    // Work at the end without a wait for it.
    void *device;
    unsigned char *pinned;
    OK(hipMalloc, &device, SIZE);
    OK(hipHostMalloc, &pinned, SIZE, 0);
    for (int i = 0; i < 100; i++) OK(hipMemcpyAsync, device, pinned, SIZE, TO_DEVICE, NULL);
    return 0;
}
