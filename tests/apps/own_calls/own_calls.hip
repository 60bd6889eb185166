// own_calls ROUNDS [fork|exec|stop]: launches in every way, from three threads, in the same order in each run.
//
// With `fork`, a child launches by itself and then executes this program, and its parent does all of it again; with `exec`, the
// program becomes itself; with `stop`, the process that has started its parent is stopped while it makes 40,000 launches more.

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "hip_subset.h"

extern "C" hipError_t hipExtLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t lds_size,
                                         hipStream_t stream, hipEvent_t begin, hipEvent_t end, int flags);

__global__ void first(unsigned *y, unsigned size) {
    if (global_thread_x() < size) y[global_thread_x()] += 1;
}

__global__ void second(unsigned *y, unsigned size) {
    if (global_thread_x() < size) y[global_thread_x()] += 2;
}

namespace {

constexpr unsigned THREADS = 3;

void check(hipError_t error) {
    if (error != hipSuccess) {
        fprintf(stderr, "HIP error %d\n", static_cast<int>(error));
        exit(1);
    }
}

// A way that changes the stack below the launch.
__attribute__((noinline)) int deeper(unsigned depth, unsigned *y, hipStream_t stream) {
    volatile unsigned here = depth;
    if (here > 0) return deeper(depth - 1, y, stream) + 0;
    second<<<dim3(2, 3), dim3(32, 2), 128, stream>>>(y, 1);
    return static_cast<int>(hipGetLastError());
}

void round(unsigned number, unsigned *y, hipStream_t stream, hipGraphExec_t graph) {
    unsigned size = 1;
    void *arguments[] = {&y, &size};
    first<<<1 + number % 3, 64, 0, stream>>>(y, size);
    check(hipGetLastError());
    deeper(number % 4, y, stream);
    check(hipMemsetAsync(y, 0, 64, stream));
    check(hipGraphLaunch(graph, stream));
    check(hipExtLaunchKernel(reinterpret_cast<const void *>(second), dim3(5), dim3(64), arguments, 0, nullptr, nullptr,
                             nullptr, 0));
    // Refused: there is no such graph.
    if (hipGraphLaunch(nullptr, stream) == hipSuccess) {
        fprintf(stderr, "not refused\n");
        exit(1);
    }
    (void)hipGetLastError();
    if (number % 50 == 0) check(hipStreamSynchronize(stream));
}

hipGraphExec_t graph_of(hipStream_t stream, unsigned *y) {
    hipGraph_t graph;
    hipGraphExec_t made;
    check(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (unsigned node = 0; node < 3; node++) first<<<1, 64, 0, stream>>>(y, 1);
    check(hipStreamEndCapture(stream, &graph));
    check(hipGraphInstantiate(&made, graph, nullptr, nullptr, 0));
    return made;
}

void work(unsigned thread, unsigned rounds) {
    pthread_setname_np(pthread_self(), ("worker" + std::to_string(thread)).c_str());
    hipStream_t stream;
    unsigned *y;
    check(hipMalloc(reinterpret_cast<void **>(&y), 4096));
    check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    hipGraphExec_t graph = graph_of(stream, y);
    const char *given = getenv("OWN_CALLS_PAUSE_US");
    const useconds_t pause_us = given == nullptr ? 100 : static_cast<useconds_t>(atoi(given));
    for (unsigned number = 0; number < rounds; number++) {
        round(number, y, stream, graph);
        usleep(pause_us);
    }
    check(hipStreamSynchronize(stream));
}

pid_t parent_of(pid_t process) {
    const std::string path = "/proc/" + std::to_string(process) + "/status";
    int parent = 0;
    char line[256];
    if (FILE *status = fopen(path.c_str(), "r")) {
        while (fgets(line, sizeof line, status) != nullptr && sscanf(line, "PPid: %d", &parent) != 1) continue;
        fclose(status);
    }
    if (parent <= 1) exit(1);
    return parent;
}

void all_work(unsigned rounds) {
    std::vector<std::thread> threads;
    for (unsigned thread = 1; thread < THREADS; thread++) threads.emplace_back(work, thread, rounds);
    work(0, rounds);
    for (std::thread &thread : threads) thread.join();
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const unsigned rounds = static_cast<unsigned>(atoi(argv[1]));
    const char *then = argc > 2 ? argv[2] : "";
    all_work(rounds);
    if (strcmp(then, "fork") == 0) {
        int status = 1;
        const pid_t child = fork();
        if (child == 0) {
            // It has its parent's memory, and no thread of the parent's but this.
            for (unsigned number = 0; number < 20; number++) (void)hipGraphLaunch(nullptr, nullptr);
            execl("/proc/self/exe", argv[0], argv[1], static_cast<char *>(nullptr));
            _exit(2);
        }
        all_work(rounds);
        waitpid(child, &status, 0);
        return status != 0;
    }
    if (strcmp(then, "stop") == 0) {
        const pid_t tracer = parent_of(getppid());
        for (unsigned number = 0; number < 43000; number++) {
            // At first slowly, so that the tracer knows these places.
            if (number < 3000) usleep(500);
            if (number == 3000) kill(tracer, SIGSTOP);
            deeper(number % 4, nullptr, nullptr);
        }
        kill(tracer, SIGCONT);
    }
    if (strcmp(then, "exec") == 0) execl("/proc/self/exe", argv[0], argv[1], static_cast<char *>(nullptr));
    return 0;
}
