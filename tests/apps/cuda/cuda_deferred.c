/* Launches ahead of a device that is not to be had, for libcuda, genuine or simulated. A test suspends the process meanwhile.
 *
 *     cuda_deferred LAUNCHES WHAT   launches, and then:
 *         sync, null, query         waits for the stream; launches on the null stream; asks for the stream
 *         event, copy, host         an event, a copy, a function of the host behind them
 *         fill                      fills the memory and copies it within the device, like a launch; then copies it
 *         free, unload, destroy     frees the kernels' memory, unloads their module, destroys their stream
 *         graph, update             launches a graph and destroys it; launches it and changes it
 *         capture                   captures on another stream
 *         buffer, cooperative       launches with all parameters in a buffer; cooperative ones, with an attribute
 *         exit                      ends without a wait; behind the shim's end it prints how many launches the library got: `launched N`
 *         fork                      a child that makes no call ends first
 *         refused                   the driver refuses one of the launches
 *         full                      nothing, while a second thread prints after 500 ms how many launches were made: `made N`
 *     cuda_deferred random SEED OPS     two threads, each with random calls on streams of its own and on the null stream
 *
 * It prints `ready` and waits for a line: before it begins; once the driver and the shim know its launches, which it makes over and over
 * until a line comes; and behind those that may be deferred. Then it prints `wrong N`, and how long the launches took: `us N`. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "kernels.h"

static CUcontext context;
static CUmodule module;
static CUfunction step;
static CUkernel step_kernel;
static volatile unsigned made;
static unsigned calls;

struct Word {
    CUdeviceptr device;
    unsigned expected;
};

static struct Word new_word(void) {
    struct Word word = {0, 1};
    CHECK(cuMemAlloc_v2(&word.device, 4096));
    CHECK(cuMemsetD32Async(word.device, 1, 1, NULL));
    CHECK(cuCtxSynchronize());
    return word;
}

static unsigned is_wrong(const struct Word *word, const char *name) {
    unsigned found = 0;
    CHECK(cuMemcpyDtoH_v2(&found, word->device, sizeof found));
    if (found != word->expected) fprintf(stderr, "%s: %u, not %u\n", name, found, word->expected);
    return found != word->expected;
}

static void expect(struct Word *word, unsigned value) { word->expected = word->expected * 5 + value; }

enum Way { PLAIN, BUFFER, COOPERATIVE, CONFIGURED, WAYS };

static CUresult launch(enum Way way, CUstream stream, struct Word *word, unsigned value) {
    struct {
        CUdeviceptr word;
        unsigned value;
    } buffer = {word->device, value};
    size_t size = 12;
    void *parameters[] = {&buffer.word, &buffer.value};
    void *extra[] = {(void *)1, &buffer, (void *)2, &size, NULL};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
    CUresult result = CUDA_SUCCESS;
    switch (way) {
    case BUFFER: result = cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra); break;
    case COOPERATIVE: result = cuLaunchCooperativeKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, parameters); break;
    case CONFIGURED: result = cuLaunchKernelEx(&config, (CUfunction)step_kernel, parameters, NULL); break;
    default: result = cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL); break;
    }
    /* What was passed is another thing from now on, as a stack frame that is used again. */
    memset(&buffer, 0xee, sizeof buffer);
    memset(&attribute, 0xee, sizeof attribute);
    memset(&config, 0xee, sizeof config);
    if (result == CUDA_SUCCESS) expect(word, value);
    return result;
}

static CUgraphExec graph_of_steps(CUstream stream, struct Word *word, unsigned value, CUgraph *graph) {
    CUgraphExec executable;
    struct Word ignored = *word;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(launch(PLAIN, stream, &ignored, value));
    CHECK(launch(CONFIGURED, stream, &ignored, value + 1));
    CHECK(cuStreamEndCapture(stream, graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, *graph, 0));
    return executable;
}

/* Launches that the simulated library got. */
static unsigned launches_got(void) {
    size_t (*read)(char *, size_t) = (size_t (*)(char *, size_t))dlsym(RTLD_DEFAULT, "hip_sim_kernel_launches");
    char lines[1024] = "";
    unsigned all = 0;
    if (read) read(lines, sizeof lines);
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n")) all += (unsigned)atoi(strrchr(line, ' '));
    return all;
}

static unsigned got_before;
static int ends_at_once;

/* Handlers that were registered later have run, the shim's among them. */
static void say_launches(void) {
    if (ends_at_once) printf("launched %u\n", launches_got() - got_before);
}

static void host_function(void *counter) { ++*(unsigned *)counter; }

static void *look(void *unused) {
    (void)unused;
    usleep(500000);
    printf("made %u\n", made);
    return NULL;
}

static int deferred(unsigned launches, const char *what) {
    int is = 0;
#define IS(name) (is = is || !strcmp(what, name), !strcmp(what, name))
    CUstream stream, other;
    CUevent event;
    CUgraph graph, second;
    CUdeviceptr spare;
    pthread_t thread;
    unsigned bad = 0, *pinned;
    unsigned refusals = 0, before_fill = 0;
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAllocHost_v2((void **)&pinned, 4096));
    CHECK(cuMemAlloc_v2(&spare, 4096));
    struct Word word = new_word(), of_null = new_word();
    CUgraphExec executable = graph_of_steps(stream, &word, 7, &graph), changed = graph_of_steps(stream, &word, 21, &second);
    void (*refuse)(unsigned) = (void (*)(unsigned))dlsym(RTLD_DEFAULT, "cuda_sim_refuse_launches");
    begin();
    /* Until a line comes: by then some are beside others. */
    for (struct pollfd input = {.events = POLLIN}; !poll(&input, 1, 1);) {
        for (int way = 0; way < WAYS; way++) CHECK(launch(way, stream, &word, 1));
        CHECK(cuMemcpyDtoDAsync_v2(spare, word.device, 4, stream));
        CHECK(cuMemsetD32Async(word.device, word.expected = 1, 1, stream));
        CHECK(launch(PLAIN, NULL, &of_null, 1));
        CHECK(cuGraphLaunch(executable, stream));
        expect(&word, 7), expect(&word, 8);
        CHECK(cuStreamSynchronize(stream));
    }
    while (getchar() != '\n' && !feof(stdin)) {}
    begin();
    got_before = launches_got();
    double begun = now_us();
    if (IS("full") && pthread_create(&thread, NULL, look, NULL)) return 2;
    enum Way way = IS("buffer") ? BUFFER : IS("cooperative") ? COOPERATIVE : PLAIN;
    for (unsigned i = 0; i < launches; i++) {
        if (IS("refused") && i == launches / 2) refuse(1);
        CHECK(launch(way, stream, &word, i));
        if (way == COOPERATIVE) CHECK(launch(CONFIGURED, stream, &word, i));
        made = i + 1;
    }
    if (IS("null")) {
        CHECK(launch(PLAIN, NULL, &word, 3));
        CHECK(launch(PLAIN, stream, &word, 4));
    }
    if (IS("graph") || IS("update")) {
        CHECK(cuGraphLaunch(executable, stream));
        expect(&word, 7), expect(&word, 8);
    }
    if (IS("fill")) {
        before_fill = word.expected;
        CHECK(cuMemcpyDtoDAsync_v2(spare, word.device, 4, stream));
        CHECK(cuMemsetD32Async(word.device, 77, 1, stream));
        CHECK(launch(PLAIN, stream, &word, 1));
        CHECK(cuMemsetD32Async(word.device, word.expected = 78, 1, stream));
    }
    double us = now_us() - begun;
    if (IS("query") && cuStreamQuery(stream) != CUDA_ERROR_NOT_READY) bad++;
    if (!IS("full")) begin();
    if (IS("exit")) return ends_at_once = 1, 0;
    if (IS("fork")) {
        int status = 1;
        pid_t child = fork();
        if (!child) _exit(0);
        if (waitpid(child, &status, 0) != child || status) bad++;
    }
    if (IS("event")) {
        CHECK(cuEventRecord(event, stream));
        CHECK(cuStreamWaitEvent(other, event, 0));
        CHECK(launch(PLAIN, other, &word, 9));
        CHECK(cuEventRecord(event, other));
        CHECK(cuEventSynchronize(event));
    } else if (IS("copy")) {
        CHECK(cuMemcpyDtoHAsync_v2(pinned, word.device, 4, stream));
        CHECK(cuStreamSynchronize(stream));
        if (*pinned != word.expected) bad++;
    } else if (IS("fill")) {
        unsigned copied = 0;
        CHECK(cuMemcpyDtoH_v2(&copied, spare, 4));
        if (copied != before_fill) bad++;
    } else if (IS("host")) {
        CHECK(cuLaunchHostFunc(stream, host_function, &calls));
        CHECK(cuStreamSynchronize(stream));
        if (calls != 1) bad++;
    } else if (IS("free")) {
        CHECK(cuMemFree_v2(word.device));
        word = new_word();
    } else if (IS("unload")) {
        CHECK(cuModuleUnload(module));
    } else if (IS("destroy")) {
        CHECK(cuStreamDestroy_v2(stream));
    } else if (IS("graph")) {
        CHECK(cuGraphExecDestroy(executable));
    } else if (IS("update")) {
        CUgraphExecUpdateResultInfo result;
        CHECK(cuGraphExecUpdate_v2(executable, second, &result));
    } else if (IS("capture")) {
        struct Word ignored = word;
        CHECK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK(launch(PLAIN, other, &ignored, 1));
        /* Not part of it. */
        CHECK(launch(PLAIN, stream, &word, 5));
        CHECK(cuStreamEndCapture(other, &graph));
    } else if (IS("refused")) {
        /* The error comes with the next call that waits, and only once. */
        for (int i = 0; i < 2; i++) refusals += cuStreamSynchronize(stream) == 701;
        if (refusals != 1) bad++;
        word.expected = 0;
        CHECK(cuMemsetD32Async(word.device, 0, 1, stream));
    }
    if (IS("sync") || !is) CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize());
    if (IS("full")) pthread_join(thread, NULL);
    bad += is_wrong(&word, what) + is_wrong(&of_null, "null");
    CHECK(cuGraphExecDestroy(changed));
    printf("us %.0f\nwrong %u\n", us, bad);
    return bad != 0;
}

static unsigned next_random(unsigned long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (unsigned)(*state >> 33);
}

struct Thread {
    pthread_t thread;
    unsigned long state;
    unsigned operations, bad;
};

static pthread_mutex_t one_prepares = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t are_prepared;

/* Each word is one stream's at a time. An event hands it over. */
static void *random_calls(void *at) {
    enum { STREAMS = 4, WORDS = 6 };
    struct Thread *thread = at;
    unsigned long *state = &thread->state;
    CUstream streams[STREAMS] = {NULL, NULL, NULL, CU_STREAM_PER_THREAD};
    struct Word words[WORDS];
    CUdeviceptr spare[WORDS];
    unsigned owner[WORDS], *pinned;
    CUevent event;
    CUgraphExec graphs[WORDS];
    pthread_mutex_lock(&one_prepares);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&streams[0], 0));
    CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAllocHost_v2((void **)&pinned, 4096));
    for (unsigned i = 0; i < WORDS; i++) {
        CUgraph graph;
        words[i] = new_word();
        CHECK(cuMemAlloc_v2(&spare[i], 4096));
        owner[i] = i % STREAMS;
        graphs[i] = graph_of_steps(streams[1], &words[i], i, &graph);
        CHECK(cuGraphDestroy(graph));
    }
    pthread_mutex_unlock(&one_prepares);
    pthread_barrier_wait(&are_prepared);
    for (unsigned n = 0; n < thread->operations; n++) {
        unsigned at_word = next_random(state) % WORDS;
        struct Word *word = &words[at_word];
        CUstream stream = streams[owner[at_word]];
        unsigned kind = next_random(state) % 64;
        if (kind < 48) {
            CHECK(launch(next_random(state) % WAYS, stream, word, n));
        } else if (kind < 50 && graphs[at_word]) {
            CHECK(cuGraphLaunch(graphs[at_word], stream));
            expect(word, at_word), expect(word, at_word + 1);
        } else if (kind < 57) {
            unsigned former = owner[at_word], next = next_random(state) % STREAMS;
            if (former % 2 == 0 && kind & 1) next = 2 - former;
            owner[at_word] = next;
            /* The null stream's rules order it and the first one without an event. */
            if (former + next != 2 || former == next) {
                CHECK(cuEventRecord(event, stream));
                CHECK(cuStreamWaitEvent(streams[next], event, 0));
            }
        } else if (kind < 58) {
            CHECK(cuMemsetD32Async(word->device, word->expected = n, 1, stream));
        } else if (kind < 59) {
            CHECK(cuMemcpyDtoHAsync_v2(pinned, word->device, 4, stream));
            CHECK(cuStreamSynchronize(stream));
            thread->bad += *pinned != word->expected;
        } else if (kind < 60) {
            while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {}
            thread->bad += is_wrong(word, "after a query");
        } else if (kind < 61) {
            CHECK(cuMemFree_v2(word->device));
            *word = new_word();
            if (graphs[at_word]) CHECK(cuGraphExecDestroy(graphs[at_word]));
            graphs[at_word] = NULL;
        } else if (kind < 62 && owner[at_word] == 0) {
            /* Its work goes on without it. */
            CHECK(cuStreamDestroy_v2(stream));
            CHECK(cuStreamCreate(&streams[0], 0));
            CHECK(cuCtxSynchronize());
        } else if (kind < 63) {
            /* Away, overwritten and back. */
            CHECK(cuMemcpyDtoDAsync_v2(spare[at_word], word->device, 4, stream));
            CHECK(cuMemsetD32Async(word->device, n, 1, stream));
            CHECK(cuMemcpyDtoDAsync_v2(word->device, spare[at_word], 4, stream));
        } else {
            CHECK(cuLaunchHostFunc(stream, host_function, &pinned[16]));
        }
    }
    CHECK(cuCtxSynchronize());
    for (unsigned i = 0; i < WORDS; i++) thread->bad += is_wrong(&words[i], "at the end");
    return NULL;
}

static int random_threads(unsigned long seed, unsigned operations) {
    struct Thread threads[2];
    unsigned bad = 0;
    pthread_barrier_init(&are_prepared, NULL, 2);
    begin();
    for (unsigned i = 0; i < 2; i++) {
        threads[i] = (struct Thread){.state = seed * 2654435761u + i + 1, .operations = operations};
        if (pthread_create(&threads[i].thread, NULL, random_calls, &threads[i])) return 2;
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i].thread, NULL);
        bad += threads[i].bad;
    }
    printf("wrong %u\n", bad);
    return bad != 0;
}

int main(int argc, char **argv) {
    CUlibrary library;
    if (argc < 3) {
        fprintf(stderr, "usage: cuda_deferred LAUNCHES WHAT | random SEED OPS\n");
        return 64;
    }
    atexit(say_launches);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, KERNELS));
    CHECK(cuModuleGetFunction(&step, module, "step"));
    CHECK(cuLibraryLoadData(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&step_kernel, library, "step"));
    if (!strcmp(argv[1], "random")) return random_threads((unsigned long)atoll(argv[2]), (unsigned)number(argc, argv, 3));
    return deferred((unsigned)number(argc, argv, 1), argv[2]);
}
