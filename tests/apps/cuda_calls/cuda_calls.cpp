// Launches by CUDA's driver interface in every way: by its own function, with a configuration, through two libraries, and
// by a graph. Copies something each round.
//
//     --rounds N    make N rounds (default 100), each with four launches
//     --ask         print `ready <pid>`, make rounds until a signal USR1, ask for the names of the kernels, make rounds
//                   until TERM

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

#include "gpu_kernels.h"

static const char CODE[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry add(.param .u64 add_memory, .param .u32 add_count) { ret; }
.visible .entry mix(.param .u64 mix_memory, .param .u32 mix_count) { ret; }
)";

constexpr unsigned COUNT = 256;
constexpr size_t BYTES = COUNT * sizeof(unsigned);

static void check(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
}
#define CHECK(call) check((call), #call)

static CUdeviceptr memory;
static CUstream stream;
static CUfunction add, mix;
static CUgraphExec executable;

static void launch(CUfunction function) {
    unsigned count = COUNT;
    void *parameters[] = {&memory, &count};
    CHECK(cuLaunchKernel(function, 4, 2, 1, 64, 1, 1, 128, stream, parameters, nullptr));
}

static void launch_configured() {
    unsigned count = COUNT;
    void *parameters[] = {&memory, &count};
    CUlaunchConfig config = {};
    config.gridDimX = 1;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 256;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    CHECK(cuLaunchKernelEx(&config, mix, parameters, nullptr));
}

// Two kernels and a fill.
static void build_graph() {
    CUgraph graph;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch(add);
    CHECK(gpu_blas_scale(memory, COUNT, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphDestroy(graph));
}

static void make_round() {
    static unsigned host[COUNT];
    launch(add);
    launch_configured();
    CHECK(gpu_blas_scale(memory, COUNT, stream));
    CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuMemcpyDtoHAsync_v2(host, memory, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
}

static volatile sig_atomic_t signalled;
static void note(int signal) { signalled = signal; }

int main(int argc, char **argv) {
    unsigned rounds = 100;
    bool asks = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ask") == 0) asks = true;
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) rounds = static_cast<unsigned>(atoi(argv[++i]));
    }
    signal(SIGUSR1, note);
    signal(SIGTERM, note);
    CUdevice device;
    CUcontext context;
    CUmodule module;
    static const unsigned host[COUNT] = {};
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, CODE));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    CHECK(cuModuleGetFunction(&mix, module, "mix"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&memory, BYTES));
    CHECK(cuMemcpyHtoD_v2(memory, host, BYTES));
    build_graph();
    if (asks) {
        printf("ready %d\n", getpid());
        fflush(stdout);
        while (signalled != SIGTERM) {
            make_round();
            usleep(2000);
            if (signalled != SIGUSR1) continue;
            signalled = 0;
            for (CUfunction function : {add, mix}) {
                const char *name;
                CHECK(cuFuncGetName(&name, function));
            }
        }
    } else {
        for (unsigned i = 0; i < rounds; i++) make_round();
    }
    printf("ok\n");
    return 0;
}
