// What blocks behind a closed gate, and whether calls of another thread (the shim's watcher) stall meanwhile.
//
// A stream waits for a word that opens after 300 ms. One thread makes the call in question; another makes the watcher's calls every
// millisecond: events and streams queried, an event recorded on another stream, a context pushed and popped. Prints how long the
// first took, and the longest of the others.
//
// nvcc -O2 -arch=sm_90 -o hazards hazards.cu -lcuda

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <functional>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        int error_ = (int)(call);                                                                          \
        if (error_) {                                                                                      \
            std::fprintf(stderr, "line %d: %s = %d\n", __LINE__, #call, error_);                           \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)

__global__ void nothing() {}
__global__ void loaded_late(float *out) { *out = 1; }
__global__ void large_frame(float *out, int n) {
    float local[8192];
    for (int i = 0; i < 8192; i++) local[i] = out[0] + i;
    out[1] = local[n];
}

static double now_ms() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

static CUcontext context;
static CUstream gated, free_stream;
static CUdeviceptr word;
static volatile unsigned *host_word;
static CUevent event, pending;
static const char PTX[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry late()\n{\n ret;\n}\n";

static void watcher(std::atomic<bool> &stop, double &longest, const char *&which) {
    auto timed = [&](const char *name, auto call) {
        double begin = now_ms();
        call();
        double took = now_ms() - begin;
        if (took > longest) longest = took, which = name;
    };
    unsigned mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)&mode);
    while (!stop) {
        timed("push", [&] { CHECK(cuCtxPushCurrent(context)); });
        timed("query event", [&] { cuEventQuery(pending); });
        timed("query gated stream", [&] { cuStreamQuery(gated); });
        timed("query other stream", [&] { cuStreamQuery(free_stream); });
        timed("record on gated stream", [&] { CHECK(cuEventRecord(event, gated)); });
        timed("record on other stream", [&] { CHECK(cuEventRecord(event, free_stream)); });
        timed("create event", [&] { CUevent e; CHECK(cuEventCreate(&e, 0)); CHECK(cuEventDestroy(e)); });
        timed("pop", [&] { CHECK(cuCtxPopCurrent(nullptr)); });
        usleep(1000);
    }
}

static void hazard(const char *name, std::function<void()> call) {
    CHECK(cudaDeviceSynchronize());
    *host_word = 0;
    CHECK(cuStreamWaitValue32(gated, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuEventRecord(pending, gated));
    std::atomic<bool> stop{false};
    double longest = 0;
    const char *which = "";
    std::thread opener([] { usleep(300000); *host_word = 1; });
    std::thread other([&] { watcher(stop, longest, which); });
    usleep(5000);
    double begin = now_ms();
    call();
    double took = now_ms() - begin;
    opener.join();
    stop = true;
    other.join();
    std::printf("%-44s %8.2f ms%s; watcher's longest call %.2f ms (%s)\n", name, took, took > 200 ? " BLOCKS" : "", longest, which);
    std::fflush(stdout);
}

int main() {
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(0));
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuStreamCreate(&gated, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventCreate(&pending, 0));
    // As the arbiter's pages are, without BPF: memory of a file that exists in memory only.
    int file = memfd_create("gate", 0);
    CHECK(ftruncate(file, 4096));
    host_word = (volatile unsigned *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(cuMemHostRegister((void *)host_word, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&word, (void *)host_word, 0));
    std::printf("a page of a memfd is registered\n");
    std::printf("registered again: %d\n", (int)cuMemHostRegister((void *)host_word, 4096, 3));

    float *out;
    void *pinned, *pageable = std::malloc(8 << 20), *big = nullptr;
    CHECK(cudaMalloc(&out, 16 << 20));
    CHECK(cudaMallocHost(&pinned, 1 << 20));
    nothing<<<1, 1, 0, gated>>>();
    nothing<<<1, 1, 0, free_stream>>>();
    // A small graph.
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(free_stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 10; i++) nothing<<<1, 1, 0, free_stream>>>();
    CHECK(cudaStreamEndCapture(free_stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, free_stream));
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CHECK(cuLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "late"));
    CHECK(cuKernelGetFunction(&function, kernel));
    const char *name = "";
    int of_function = cuFuncGetName(&name, function), of_kernel = cuFuncGetName(&name, (CUfunction)kernel);
    std::printf("cuFuncGetName of a function: %d, of a library's kernel: %d (%s)\n", of_function, of_kernel, name);

    hazard("nothing", [] {});
    hazard("first launch of a kernel, same stream", [&] { loaded_late<<<1, 1, 0, gated>>>(out); });
    hazard("first launch with a large frame, same stream", [&] { large_frame<<<1, 1, 0, gated>>>(out, 3); });
    hazard("cuModuleLoadData of PTX", [&] { CUmodule m; CHECK(cuModuleLoadData(&m, PTX)); });
    hazard("graph launch, same stream", [&] { CHECK(cudaGraphLaunch(executable, gated)); });
    hazard("50 graph launches, same stream", [&] { for (int i = 0; i < 50; i++) CHECK(cudaGraphLaunch(executable, gated)); });
    hazard("900 launches, same stream", [&] { for (int i = 0; i < 900; i++) nothing<<<1, 1, 0, gated>>>(); });
    hazard("2000 launches, same stream", [&] { for (int i = 0; i < 2000; i++) nothing<<<1, 1, 0, gated>>>(); });
    hazard("launch and wait, other stream", [&] { nothing<<<1, 1, 0, free_stream>>>(); CHECK(cuStreamSynchronize(free_stream)); });
    hazard("null stream, launch and wait", [&] { nothing<<<1, 1>>>(); CHECK(cudaStreamSynchronize(0)); });
    hazard("cudaMalloc of 64 MiB", [&] { CHECK(cudaMalloc(&big, 64 << 20)); });
    hazard("cudaFree of 64 MiB", [&] { CHECK(cudaFree(big)); });
    hazard("cudaHostAlloc", [&] { void *p; CHECK(cudaHostAlloc(&p, 1 << 20, 0)); });
    hazard("pinned copy, same stream", [&] { CHECK(cudaMemcpyAsync(out, pinned, 1 << 20, cudaMemcpyHostToDevice, gated)); });
    hazard("pageable copy of 8 MiB, same stream", [&] { CHECK(cudaMemcpyAsync(out, pageable, 8 << 20, cudaMemcpyHostToDevice, gated)); });
    hazard("pageable copy back, same stream", [&] { CHECK(cudaMemcpyAsync(pageable, out, 65536, cudaMemcpyDeviceToHost, gated)); });
    hazard("cudaDeviceSynchronize", [&] { CHECK(cudaDeviceSynchronize()); });
    CHECK(cudaDeviceSynchronize());
    return 0;
}
