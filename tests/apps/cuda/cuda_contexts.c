/* Contexts and changed graphs, for libcuda, genuine or simulated.
 *
 *     cuda_contexts run SECONDS COUNT BLOCKS WHICH..   kernels back to back in each of these contexts, a thread each:
 *         primary, deviceN     the primary context of device 0, of device N
 *         second, third, ..    any other word: a context of its own on device 0
 *         green, greenstream   a green context on device 0 that is current; a stream of one, while the primary context is
 *         resets               one on device 0 that is destroyed and made again every 50 ms
 *     cuda_contexts graph SECONDS COUNT WAY            a graph of one kernel, over and over:
 *         plain, collective    as it was instantiated
 *         kernel, node, child, update   plain, and changed to a collective by the setter for that; with `un` before, the reverse
 *
 *     cuda_contexts streams KERNELS COUNT PRIORITY..    so many kernels on a stream for each of these priorities, a thread each: prints
 *                                                      `ms_PRIORITY N`, when each was done; `d-5` is a priority
 *                                                      that the driver is given, others are hints
 *     cuda_contexts time COUNT BLOCKS                  how long a kernel takes: prints `us N`, and begins at once
 *     cuda_contexts hints                              what hints for null streams return: prints `WHERE N`, and begins at once
 *
 * It prints `ready` and begins after a line, or the end, of standard input. Then it prints how many kernels there were: `kernels N`,
 * and `kernels_WHICH N` for each context. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "kernels.h"

enum { AHEAD = 16, MOST = 32 };

static double seconds;
static unsigned count, blocks;
static CUlibrary library;
static CUkernel burn, collective;
static pthread_barrier_t is_ready, is_begun;

struct Place {
    const char *which;
    pthread_t thread;
    CUcontext context;
    CUstream stream;
    CUgreenCtx green;
    unsigned long done;
};

static CUgreenCtx new_green(CUdevice device) {
    CUdevResource all, groups[2], rest;
    CUdevResourceDesc description;
    CUgreenCtx green;
    unsigned number = 1;
    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(groups, &number, &all, &rest, 0, 16));
    CHECK(cuDevResourceGenerateDesc(&description, groups, 1));
    CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static void open_place(struct Place *place) {
    CUdevice device = strncmp(place->which, "device", 6) ? 0 : atoi(place->which + 6);
    int is_green = !strncmp(place->which, "green", 5);
    if (is_green || !strcmp(place->which, "primary") || device) {
        CHECK(cuDevicePrimaryCtxRetain(&place->context, device));
        CHECK(cuCtxSetCurrent(place->context));
    } else {
        CHECK(cuCtxCreate_v2(&place->context, 0, device));
    }
    if (is_green) {
        place->green = new_green(device);
        CHECK(cuGreenCtxStreamCreate(&place->stream, place->green, CU_STREAM_NON_BLOCKING, 0));
        if (!strcmp(place->which, "green")) {
            CHECK(cuCtxFromGreenCtx(&place->context, place->green));
            CHECK(cuCtxSetCurrent(place->context));
        }
    } else {
        CHECK(cuStreamCreate(&place->stream, CU_STREAM_NON_BLOCKING));
    }
}

static void close_place(struct Place *place) {
    CHECK(cuStreamSynchronize(place->stream));
    CHECK(cuStreamDestroy_v2(place->stream));
    if (place->green) {
        CHECK(cuCtxSetCurrent(NULL));
        CHECK(cuGreenCtxDestroy(place->green));
    } else if (strcmp(place->which, "primary") && strncmp(place->which, "device", 6)) {
        CHECK(cuCtxDestroy_v2(place->context));
    }
}

static void launch(CUkernel kernel, CUstream stream, CUdeviceptr *word) {
    void *parameters[] = {&count, word};
    CHECK(cuLaunchKernel((CUfunction)kernel, blocks, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

/* Kernels back to back, some ahead, for so long. */
static unsigned long launch_for(CUstream stream, double us) {
    CUevent events[AHEAD];
    CUdeviceptr word;
    unsigned long done = 0;
    CHECK(cuMemAlloc_v2(&word, 4096));
    for (int i = 0; i < AHEAD; i++) CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    for (double end = now_us() + us; now_us() < end; done++) {
        CUevent event = events[done % AHEAD];
        if (done >= AHEAD) CHECK(cuEventSynchronize(event));
        launch(burn, stream, &word);
        CHECK(cuEventRecord(event, stream));
    }
    CHECK(cuStreamSynchronize(stream));
    for (int i = 0; i < AHEAD; i++) CHECK(cuEventDestroy_v2(events[i]));
    CHECK(cuMemFree_v2(word));
    return done;
}

static void *in_place(void *at) {
    struct Place *place = at;
    CUcontext current;
    int is_reset = !strcmp(place->which, "resets");
    open_place(place);
    CHECK(cuCtxGetCurrent(&current));
    launch_for(place->stream, 1000);
    pthread_barrier_wait(&is_ready);
    pthread_barrier_wait(&is_begun);
    double end = now_us() + seconds * 1e6;
    while (now_us() < end) {
        double left = end - now_us();
        place->done += launch_for(place->stream, is_reset && left > 50e3 ? 50e3 : left);
        if (is_reset && now_us() < end) {
            close_place(place);
            open_place(place);
        }
    }
    CUcontext after;
    CHECK(cuCtxGetCurrent(&after));
    if (after != current && !is_reset) {
        fprintf(stderr, "%s: another context is current\n", place->which);
        exit(1);
    }
    close_place(place);
    return NULL;
}

static int run(char **which, unsigned number) {
    struct Place places[MOST];
    unsigned long all = 0;
    memset(places, 0, sizeof places);
    if (number > MOST) return 64;
    pthread_barrier_init(&is_ready, NULL, number + 1);
    pthread_barrier_init(&is_begun, NULL, number + 1);
    for (unsigned i = 0; i < number; i++) {
        places[i].which = which[i];
        if (pthread_create(&places[i].thread, NULL, in_place, &places[i])) return 2;
    }
    pthread_barrier_wait(&is_ready);
    begin();
    pthread_barrier_wait(&is_begun);
    for (unsigned i = 0; i < number; i++) {
        pthread_join(places[i].thread, NULL);
        all += places[i].done;
        printf("kernels_%s %lu\n", which[i], places[i].done);
    }
    printf("kernels %lu\n", all);
    return 0;
}

struct Asked {
    const char *priority;
    pthread_t thread;
    double ms;
};

static unsigned kernels_each;
static double begun_us;

static void *on_stream(void *at) {
    struct Asked *asked = at;
    CUcontext context;
    CUstream stream;
    CUdeviceptr word;
    int (*hint)(void *, const int *, const unsigned long long *) =
        (int (*)(void *, const int *, const unsigned long long *))dlsym(RTLD_DEFAULT, "xsched_hint_stream");
    int is_devices = *asked->priority == 'd';
    int priority = atoi(asked->priority + is_devices);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, is_devices ? priority : 0));
    CHECK(cuMemAlloc_v2(&word, 4096));
    if (!is_devices && (!hint || hint(stream, &priority, NULL))) {
        fprintf(stderr, "priority %d is not heeded\n", priority);
        exit(3);
    }
    if (!is_devices && hint(&word, &priority, NULL) != 3) {
        fprintf(stderr, "what is no stream is taken for one\n");
        exit(3);
    }
    launch(burn, stream, &word);
    CHECK(cuStreamSynchronize(stream));
    pthread_barrier_wait(&is_ready);
    pthread_barrier_wait(&is_begun);
    for (unsigned i = 0; i < kernels_each; i++) {
        launch(burn, stream, &word);
        if (i % AHEAD == 0) CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(stream));
    asked->ms = (now_us() - begun_us) / 1e3;
    CHECK(cuStreamDestroy_v2(stream));
    return NULL;
}

static int streams(char **priorities, unsigned number) {
    struct Asked asked[MOST];
    if (number > MOST) return 64;
    pthread_barrier_init(&is_ready, NULL, number + 1);
    pthread_barrier_init(&is_begun, NULL, number + 1);
    for (unsigned i = 0; i < number; i++) {
        asked[i].priority = priorities[i];
        if (pthread_create(&asked[i].thread, NULL, on_stream, &asked[i])) return 2;
    }
    pthread_barrier_wait(&is_ready);
    begin();
    begun_us = now_us();
    pthread_barrier_wait(&is_begun);
    for (unsigned i = 0; i < number; i++) pthread_join(asked[i].thread, NULL);
    for (unsigned i = 0; i < number; i++) printf("ms_%s %.0f\n", priorities[i], asked[i].ms);
    return 0;
}

static void hint_null_stream(const char *where, CUstream stream) {
    int (*hint)(void *, const int *, const unsigned long long *) =
        (int (*)(void *, const int *, const unsigned long long *))dlsym(RTLD_DEFAULT, "xsched_hint_stream");
    int priority = -50;
    printf("%s %d\n", where, hint ? hint(stream, &priority, NULL) : -1);
}

static int hints(void) {
    CUcontext primary, second, current;
    CUdeviceptr word;
    unsigned flags;
    int is_active;
    hint_null_stream("uninitialised", NULL);
    CHECK(cuInit(0));
    hint_null_stream("no_context", NULL);
    CHECK(cuCtxGetCurrent(&current));
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    if (current || is_active) {
        fprintf(stderr, "a hint has made a context\n");
        return 1;
    }
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    hint_null_stream("per_thread", CU_STREAM_PER_THREAD);
    hint_null_stream("first", NULL);
    hint_null_stream("legacy", CU_STREAM_LEGACY);
    CHECK(cuCtxCreate_v2(&second, 0, 0));
    hint_null_stream("second", NULL);
    CHECK(cuLibraryLoadData(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&burn, library, "burn"));
    CHECK(cuMemAlloc_v2(&word, 4096));
    launch(burn, NULL, &word);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDestroy_v2(second));
    CHECK(cuCtxSetCurrent(NULL));
    hint_null_stream("none_current", NULL);
    return 0;
}

static int time_one(void) {
    enum { KERNELS_TIMED = 20 };
    CUcontext context;
    CUstream stream;
    CUdeviceptr word;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&word, 4096));
    launch(burn, stream, &word);
    CHECK(cuStreamSynchronize(stream));
    double begun = now_us();
    for (int i = 0; i < KERNELS_TIMED; i++) launch(burn, stream, &word);
    CHECK(cuStreamSynchronize(stream));
    printf("us %.1f\n", (now_us() - begun) / KERNELS_TIMED);
    return 0;
}

static CUDA_KERNEL_NODE_PARAMS node_of(CUkernel kernel, void **parameters) {
    CUDA_KERNEL_NODE_PARAMS node;
    memset(&node, 0, sizeof node);
    node.kern = kernel;
    node.gridDimX = blocks;
    node.blockDimX = 256;
    node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
    return node;
}

/* A graph of one kernel; with `inner`, of a graph of one kernel. */
static CUgraph graph_of(CUkernel kernel, void **parameters, int inner, CUgraphNode *node) {
    CUgraph graph, outer;
    CUDA_KERNEL_NODE_PARAMS with = node_of(kernel, parameters);
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode_v2(node, graph, NULL, 0, &with));
    if (!inner) return graph;
    CHECK(cuGraphCreate(&outer, 0));
    CHECK(cuGraphAddChildGraphNode(node, outer, NULL, 0, graph));
    CHECK(cuGraphDestroy(graph));
    return outer;
}

static void change(CUgraphExec executable, CUgraphNode node, CUkernel kernel, void **parameters, const char *way) {
    CUDA_KERNEL_NODE_PARAMS with = node_of(kernel, parameters);
    CUgraphNode ignored;
    if (!strcmp(way, "kernel")) {
        CHECK(cuGraphExecKernelNodeSetParams_v2(executable, node, &with));
    } else if (!strcmp(way, "node")) {
        CUgraphNodeParams any;
        memset(&any, 0, sizeof any);
        any.type = CU_GRAPH_NODE_TYPE_KERNEL;
        memcpy(&any.reserved1, &with, sizeof with);
        CHECK(cuGraphExecNodeSetParams(executable, node, &any));
    } else if (!strcmp(way, "child")) {
        CHECK(cuGraphExecChildGraphNodeSetParams(executable, node, graph_of(kernel, parameters, 0, &ignored)));
    } else if (!strcmp(way, "update")) {
        CUgraphExecUpdateResultInfo result;
        memset(&result, 0, sizeof result);
        CHECK(cuGraphExecUpdate_v2(executable, graph_of(kernel, parameters, 0, &ignored), &result));
    }
}

static int graph(const char *way) {
    CUcontext context;
    CUstream stream;
    CUdeviceptr word;
    CUgraphExec executable;
    CUgraphNode node;
    int is_back = !strncmp(way, "un", 2), is_first = is_back || !strcmp(way, "collective");
    unsigned long done = 0;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&word, 4096));
    void *parameters[] = {&count, &word};
    way += is_back ? 2 : 0;
    CUgraph of = graph_of(is_first ? collective : burn, parameters, !strcmp(way, "child"), &node);
    CHECK(cuGraphInstantiateWithFlags(&executable, of, 0));
    change(executable, node, is_back ? burn : collective, parameters, way);
    CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuStreamSynchronize(stream));
    begin();
    for (double end = now_us() + seconds * 1e6; now_us() < end; done++) {
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(of));
    printf("kernels %lu\n", done);
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    seconds = number(argc, argv, 2);
    count = (unsigned)number(argc, argv, 3);
    if (!strcmp(mode, "hints")) {
        count = blocks = 1;
        return hints();
    }
    CHECK(cuInit(0));
    CHECK(cuLibraryLoadData(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&burn, library, "burn"));
    CHECK(cuLibraryGetKernel(&collective, library, "ncclDevKernel_burn"));
    if (!strcmp(mode, "run") && argc > 5) {
        blocks = (unsigned)number(argc, argv, 4);
        return run(argv + 5, (unsigned)argc - 5);
    }
    if (!strcmp(mode, "streams") && argc > 4) {
        kernels_each = (unsigned)number(argc, argv, 2);
        blocks = 264;
        return streams(argv + 4, (unsigned)argc - 4);
    }
    if (!strcmp(mode, "time") && argc > 3) {
        count = (unsigned)number(argc, argv, 2);
        blocks = (unsigned)number(argc, argv, 3);
        return time_one();
    }
    if (!strcmp(mode, "graph") && argc > 4) {
        blocks = 264;
        return graph(argv[4]);
    }
    fprintf(stderr, "usage: cuda_contexts run|graph|streams|time|hints ..\n");
    return 64;
}
