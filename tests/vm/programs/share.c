// What `shares` does with one copy of the runtime: the one that this library is linked with. No call may leave an error with the
// thread that is not its own.
#include "share.h"

#include "linked.h"

#define CLEAN(name, ...)                                                                                               \
    do {                                                                                                               \
        OK(name, __VA_ARGS__);                                                                                         \
        OK(hipGetLastError);                                                                                           \
    } while (0)

static void *kernel, *stream, *on_device, *times_there;
static unsigned launched, expected[WIDTH];

// What `rounds` steps of value * factor + sum do, as one step.
static void composed(unsigned rounds, unsigned key, unsigned *factor, unsigned *sum) {
    unsigned by = 1664525u, plus = key;
    *factor = 1, *sum = 0;
    for (; rounds; rounds /= 2) {
        if (rounds & 1) *factor *= by, *sum = *sum * by + plus;
        plus += plus * by, by *= by;
    }
}

static void load(void) {
    static char code[1 << 16];
    FILE *file = fopen("advance.co", "rb");
    void *module;
    if (!file || !fread(code, 1, sizeof code, file)) exit(2);
    fclose(file);
    CLEAN(hipModuleLoadData, &module, code);
    CLEAN(hipModuleGetFunction, &kernel, module, "advance");
}

void share_begin(void) {
    load();
    CLEAN(hipStreamCreateWithFlags, &stream, NON_BLOCKING);
    CLEAN(hipMalloc, &on_device, sizeof expected);
    CLEAN(hipMalloc, &times_there, MOST * sizeof(struct Executed));
    for (unsigned i = 0; i < WIDTH; i++) expected[i] = i * 77;
    CLEAN(hipMemcpy, on_device, expected, sizeof expected, TO_DEVICE);
}

void share_launch(unsigned index, unsigned rounds) {
    unsigned key = ++launched, factor, sum;
    struct Executed *there = (struct Executed *)times_there + index;
    void *arguments[] = {&on_device, &rounds, &key, &there};
    CLEAN(hipModuleLaunchKernel, kernel, 1, 1, 1, WIDTH, 1, 1, 0, stream, arguments, NULL);
    composed(rounds, key, &factor, &sum);
    for (unsigned i = 0; i < WIDTH; i++) expected[i] = expected[i] * factor + sum;
}

void share_wait(unsigned kernels, struct Executed *times) {
    CLEAN(hipStreamSynchronize, stream);
    CLEAN(hipMemcpyAsync, times, times_there, kernels * sizeof *times, TO_HOST, stream);
    CLEAN(hipStreamSynchronize, stream);
}

unsigned share_right(void) {
    unsigned values[WIDTH], right = 0;
    CLEAN(hipMemcpyAsync, values, on_device, sizeof values, TO_HOST, stream);
    CLEAN(hipStreamSynchronize, stream);
    for (unsigned i = 0; i < WIDTH; i++) right += values[i] == expected[i];
    return right;
}
