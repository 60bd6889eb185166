/* A program for libcuda, genuine or simulated. Its kernels check the order of launches.
 *
 *     cuda_client steps LAUNCHES                      on streams of every kind, by every way into the library
 *     cuda_client batch SECONDS COUNT BLOCKS          kernels back to back, 16 ahead; prints how many
 *     cuda_client urgent REQUESTS KERNELS COUNT US    a request of some kernels every so many us; prints their times in us
 *     cuda_client bound SECONDS KERNELS COUNT US      requests that the host bounds: so many kernels, before each of which it sleeps for
 *                                                     so many us in place of work; prints how many
 *     cuda_client launches PIECES COUNT               pieces of 500 launches, each with a wait behind it that does not count; prints the
 *                                                     median of a launch in ns: `ns N`
 *     cuda_client by CALLER SECONDS COUNT             a kernel and a wait, again and again, launched by a library of this path, by the
 *                                                     program (`program`), or by it in a domain (`system`, `application`)
 *
 * Each mode prints `ready` and begins after a line, or the end, of standard input. Then it prints `name value` lines. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client.h"
#include "cuda_subset.h"
#include "kernels.h"

typedef CUresult Launch(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void **, void **);

static CUfunction step, burn;
static CUkernel step_kernel;

/* A word on the device and what it must be: steps change both. */
struct Word {
    CUdeviceptr device;
    unsigned expected;
};

static struct Word new_word(CUstream stream) {
    struct Word word = {0, 1};
    CHECK(cuMemAlloc_v2(&word.device, 4096));
    CHECK(cuMemsetD32Async(word.device, 1, 1, stream));
    return word;
}

static unsigned wrong(struct Word *word, const char *name) {
    unsigned found = 0;
    CHECK(cuMemcpyDtoH_v2(&found, word->device, sizeof found));
    if (found != word->expected) fprintf(stderr, "%s: %u, not %u\n", name, found, word->expected);
    return found != word->expected;
}

static void step_on(Launch *launch, CUstream stream, struct Word *word, unsigned value) {
    void *parameters[] = {&word->device, &value};
    CHECK(launch(step, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    word->expected = word->expected * 5 + value;
}

static void step_ex(CUstream stream, struct Word *word, unsigned value) {
    void *parameters[] = {&word->device, &value};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, value & 1};
    /* A library's kernel is launched like a function. */
    CHECK(cuLaunchKernelEx(&config, (CUfunction)step_kernel, parameters, NULL));
    word->expected = word->expected * 5 + value;
}

static Launch *found_by_name(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    return (Launch *)dlsym(library, "cuLaunchKernel");
}

static Launch *given(int version, uint64_t flags) {
    void *found = NULL;
    int status = -1;
    if (version < 12000) CHECK(cuGetProcAddress("cuLaunchKernel", &found, version, flags));
    else CHECK(cuGetProcAddress_v2("cuLaunchKernel", &found, version, flags, &status));
    return (Launch *)found;
}

/* The driver answers with success, and without a function. */
static void *given_nothing(void) {
    void *found = &found;
    int status = -1;
    CHECK(cuGetProcAddress_v2("cuNoSuchFunction", &found, 12000, 0, &status));
    return found;
}

static void host_function(void *counter) { ++*(unsigned *)counter; }

static CUgraphExec graph_of_steps(CUstream stream, struct Word *word) {
    CUgraph graph;
    CUgraphExec executable;
    struct Word ignored = *word;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    step_on(cuLaunchKernel, stream, &ignored, 7);
    step_on(cuLaunchKernel, stream, &ignored, 11);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return executable;
}

static int steps(unsigned launches, CUcontext context) {
    CUstream blocking, urgent, other;
    if (given_nothing()) return 1;
    CUevent event;
    unsigned calls = 0, bad = 0;
    Launch *by_name = found_by_name(), *old = given(11040, CU_GET_PROC_ADDRESS_DEFAULT);
    Launch *own = given(12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    CHECK(cuStreamCreate(&blocking, 0));
    CHECK(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -5));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    struct Word a = new_word(blocking), b = new_word(urgent), c = new_word(CU_STREAM_PER_THREAD), d = new_word(NULL);
    CHECK(cuCtxSynchronize());
    CUgraphExec graph = graph_of_steps(other, &b);
    unsigned *pinned;
    CHECK(cuMemAllocHost_v2((void **)&pinned, 4096));
    begin();
    for (unsigned i = 0; i < launches; i++) {
        step_on(i & 1 ? by_name : cuLaunchKernel, blocking, &a, i);
        step_on(old, urgent, &b, i);
        step_ex(urgent, &b, i);
        step_on(own, NULL, &c, i);
        step_on(cuLaunchKernel, NULL, &d, i);
        step_on(cuLaunchKernel, CU_STREAM_PER_THREAD, &c, 3);
        if (i % 8 == 0) {
            /* The other stream goes on with this word, and the first one comes back to it. */
            CHECK(cuEventRecord(event, urgent));
            CHECK(cuStreamWaitEvent(other, event, 0));
            CHECK(cuGraphLaunch(graph, other));
            b.expected = (b.expected * 5 + 7) * 5 + 11;
            CHECK(cuEventRecord(event, other));
            CHECK(cuStreamWaitEvent(urgent, event, 0));
            CHECK(cuLaunchHostFunc(other, host_function, &calls));
        }
        if (i % 16 == 0) {
            CHECK(cuMemcpyDtoHAsync_v2(pinned, a.device, 4, blocking));
            CHECK(cuStreamSynchronize(blocking));
            if (*pinned != a.expected) bad++;
            if (cuStreamQuery(blocking) != CUDA_SUCCESS) bad++;
        }
        CUcontext current = NULL;
        CHECK(cuCtxGetCurrent(&current));
        if (current != context) bad++;
    }
    CHECK(cuCtxSynchronize());
    bad += wrong(&a, "blocking") + wrong(&b, "urgent") + wrong(&c, "per-thread") + wrong(&d, "null");
    printf("host_functions %u\nwrong %u\n", calls, bad);
    CHECK(cuStreamDestroy_v2(blocking));
    CHECK(cuStreamDestroy_v2(urgent));
    CHECK(cuGraphExecDestroy(graph));
    return bad != 0;
}

static void burn_on(CUstream stream, unsigned count, unsigned blocks, CUdeviceptr word) {
    void *parameters[] = {&count, &word};
    CHECK(cuLaunchKernel(burn, blocks, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

static int batch(double seconds, unsigned count, unsigned blocks) {
    enum { AHEAD = 16 };
    CUstream stream;
    CUevent events[AHEAD];
    CUdeviceptr word;
    unsigned long done = 0;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&word, 4096));
    for (int i = 0; i < AHEAD; i++) CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    burn_on(stream, 1, 1, word);
    CHECK(cuStreamSynchronize(stream));
    begin();
    for (double end = now_us() + seconds * 1e6; now_us() < end; done++) {
        CUevent event = events[done % AHEAD];
        if (done >= AHEAD) CHECK(cuEventSynchronize(event));
        burn_on(stream, count, blocks, word);
        CHECK(cuEventRecord(event, stream));
    }
    CHECK(cuStreamSynchronize(stream));
    printf("kernels %lu\n", done);
    return 0;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int urgent(unsigned requests, unsigned kernels, unsigned count, double period_us) {
    CUstream stream;
    CUdeviceptr word;
    double *times = calloc(requests ? requests : 1, sizeof *times), sum = 0;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&word, 4096));
    burn_on(stream, 1, 1, word);
    CHECK(cuStreamSynchronize(stream));
    begin();
    double start = now_us();
    for (unsigned i = 0; i < requests; i++) {
        double wait_us = start + i * period_us - now_us();
        if (wait_us > 0) usleep((useconds_t)wait_us);
        double begun = now_us();
        for (unsigned k = 0; k < kernels; k++) burn_on(stream, count, 132, word);
        CHECK(cuStreamSynchronize(stream));
        sum += times[i] = now_us() - begun;
    }
    qsort(times, requests, sizeof *times, compare);
    if (requests)
        printf("mean %.0f\np50 %.0f\np99 %.0f\nmax %.0f\n", sum / requests, times[requests / 2],
               times[requests * 99 / 100], times[requests - 1]);
    return 0;
}

static int bound(double seconds, unsigned kernels, unsigned count, double us) {
    struct timespec work = {0, (long)(us * 1e3)};
    CUstream stream;
    CUdeviceptr word;
    unsigned long requests = 0;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&word, 4096));
    burn_on(stream, 1, 1, word);
    CHECK(cuStreamSynchronize(stream));
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    begin();
    for (double end = now_us() + seconds * 1e6; now_us() < end; requests++) {
        for (unsigned k = 0; k < kernels; k++) {
            nanosleep(&work, NULL);
            burn_on(stream, count, 132, word);
        }
        CHECK(cuStreamSynchronize(stream));
    }
    printf("requests %lu\n", requests);
    return 0;
}

typedef CUresult LaunchFor(CUfunction, unsigned, CUstream, void **);

static CUresult launch_here(CUfunction kernel, unsigned blocks, CUstream stream, void **parameters) {
    return cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, parameters, NULL);
}

/* The library at a path launches, through those at further paths behind `>`. */
static LaunchFor *load(const char *paths) {
    LaunchFor *outermost = NULL;
    void (*through)(LaunchFor *) = NULL;
    char *all = strdup(paths), *rest = all;
    for (char *path; (path = strsep(&rest, ">"));) {
        void *library = dlopen(path, RTLD_NOW);
        LaunchFor *launch = library ? (LaunchFor *)dlsym(library, "launch_for") : NULL;
        if (!launch) fprintf(stderr, "%s\n", dlerror());
        if (!launch) return NULL;
        if (through) through(launch);
        if (!outermost) outermost = launch;
        through = (void (*)(LaunchFor *))dlsym(library, "launch_through");
    }
    free(all);
    return outermost;
}

static int by(const char *caller, double seconds, unsigned count) {
    LaunchFor *launch = launch_here;
    CUstream stream;
    CUdeviceptr word;
    unsigned long done = 0;
    void *parameters[] = {&count, &word};
    int domain = !strcmp(caller, "system") ? 1 : !strcmp(caller, "application") ? 2 : 0, before = -1;
    if (domain) {
        int (*set)(const int *, int *) = (int (*)(const int *, int *))dlsym(RTLD_DEFAULT, "xsched_thread_domain");
        if (!set || set(&domain, &before) || before) return 2;
    }
    if (strchr(caller, '/')) {
        launch = load(caller);
        if (!launch) return 2;
    }
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&word, 4096));
    begin();
    for (double end = now_us() + seconds * 1e6; now_us() < end; done++) {
        CHECK(launch(burn, 132, stream, parameters));
        CHECK(cuStreamSynchronize(stream));
    }
    printf("kernels %lu\n", done);
    return 0;
}

static int launches(unsigned pieces, unsigned count) {
    enum { LAUNCHES = 500 };
    CUstream stream;
    CUdeviceptr word;
    double *times = calloc(pieces + 1, sizeof *times);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&word, 4096));
    burn_on(stream, 1, 1, word);
    CHECK(cuStreamSynchronize(stream));
    begin();
    for (unsigned piece = 0; piece < pieces; piece++) {
        double begun = now_us();
        for (int i = 0; i < LAUNCHES; i++) burn_on(stream, count, 1, word);
        times[piece] = (now_us() - begun) * 1e3 / LAUNCHES;
        CHECK(cuStreamSynchronize(stream));
    }
    qsort(times, pieces, sizeof *times, compare);
    printf("ns %.1f\n", times[pieces / 2]);
    return 0;
}

int main(int argc, char **argv) {
    CUcontext context;
    CUmodule module;
    CUlibrary library;
    const char *mode = argc > 1 ? argv[1] : "";
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, KERNELS));
    CHECK(cuModuleGetFunction(&step, module, "step"));
    CHECK(cuModuleGetFunction(&burn, module, "burn"));
    CHECK(cuLibraryLoadData(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&step_kernel, library, "step"));
    if (!strcmp(mode, "steps")) return steps((unsigned)number(argc, argv, 2), context);
    if (!strcmp(mode, "batch"))
        return batch(number(argc, argv, 2), (unsigned)number(argc, argv, 3), (unsigned)number(argc, argv, 4));
    if (!strcmp(mode, "urgent"))
        return urgent((unsigned)number(argc, argv, 2), (unsigned)number(argc, argv, 3), (unsigned)number(argc, argv, 4),
                      number(argc, argv, 5));
    if (!strcmp(mode, "bound"))
        return bound(number(argc, argv, 2), (unsigned)number(argc, argv, 3), (unsigned)number(argc, argv, 4),
                     number(argc, argv, 5));
    if (!strcmp(mode, "launches")) return launches((unsigned)number(argc, argv, 2), (unsigned)number(argc, argv, 3));
    if (!strcmp(mode, "by") && argc > 4) return by(argv[2], number(argc, argv, 3), (unsigned)number(argc, argv, 4));
    fprintf(stderr, "usage: cuda_client steps|batch|urgent|bound|launches|by ..\n");
    return 64;
}
