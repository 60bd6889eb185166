// One of several processes that share the device. Each line of its input has two numbers: so many kernels it launches on a stream,
// of so many rounds, each of which works on what the one before has computed. It waits for them and prints when they were executed,
// by the device's clock. In the end it compares what they have computed with what the host computes.
#include "linked.h"

enum { WIDTH = 64, MOST = 64 };

// What `rounds` steps of value * factor + sum do, as one step.
static void composed(unsigned rounds, unsigned key, unsigned *factor, unsigned *sum) {
    unsigned by = 1664525u, plus = key;
    *factor = 1, *sum = 0;
    for (; rounds; rounds /= 2) {
        if (rounds & 1) *factor *= by, *sum = *sum * by + plus;
        plus += plus * by, by *= by;
    }
}

static void *loaded(void) {
    static char code[1 << 16];
    FILE *file = fopen("advance.co", "rb");
    void *module, *kernel;
    if (!file || !fread(code, 1, sizeof code, file)) exit(2);
    fclose(file);
    OK(hipModuleLoadData, &module, code);
    OK(hipModuleGetFunction, &kernel, module, "advance");
    return kernel;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    unsigned kernels, rounds, launched = 0, expected[WIDTH], values[WIDTH];
    void *kernel = loaded(), *stream, *on_device, *times_there;
    static uint64_t times[MOST][2];
    OK(hipStreamCreateWithFlags, &stream, NON_BLOCKING);
    OK(hipMalloc, &on_device, sizeof values);
    OK(hipMalloc, &times_there, sizeof times);
    for (unsigned i = 0; i < WIDTH; i++) expected[i] = i * 77;
    OK(hipMemcpy, on_device, expected, sizeof expected, TO_DEVICE);
    puts("ready");

    char line[64];
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%u %u", &kernels, &rounds) == 2 && kernels <= MOST) {
        for (unsigned i = 0; i < kernels; i++) {
            unsigned key = ++launched;
            uint64_t *there = (uint64_t *)times_there + 2 * i;
            void *arguments[] = {&on_device, &rounds, &key, &there};
            OK(hipModuleLaunchKernel, kernel, 1, 1, 1, WIDTH, 1, 1, 0, stream, arguments, NULL);
        }
        OK(hipStreamSynchronize, stream);
        for (unsigned key = launched - kernels + 1; key <= launched; key++) {
            unsigned factor, sum;
            composed(rounds, key, &factor, &sum);
            for (unsigned i = 0; i < WIDTH; i++) expected[i] = expected[i] * factor + sum;
        }
        OK(hipMemcpyAsync, times, times_there, kernels * sizeof *times, TO_HOST, stream);
        OK(hipStreamSynchronize, stream);
        for (unsigned i = 0; i < kernels; i++) printf("%lu-%lu ", times[i][0], times[i][1]);
        puts("done");
    }
    OK(hipMemcpyAsync, values, on_device, sizeof values, TO_HOST, stream);
    OK(hipStreamSynchronize, stream);
    int right = 0;
    for (unsigned i = 0; i < WIDTH; i++) right += values[i] == expected[i];
    printf("%d of %d values are right after %u kernels\n", right, WIDTH, launched);
    return 0;
}
