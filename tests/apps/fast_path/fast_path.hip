// Counts side effects of HIP calls: system calls and allocations of the calling thread. Prints one line for
// each function: its name, calls, calls that made a system call, allocations.
//
//     fast_path         every function, and `control`, which makes one system call and one allocation itself
//     fast_path held    launches only, once they are deferred
//     fast_path beside  the same on a stream beside one whose launches are deferred
//
// A runtime in null mode (`HIP_SIM_NULL`) makes neither, so all counts are due to the layers above it.

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "program.hpp"

// linux/prctl.h
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

// Exit status if the kernel cannot dispatch system calls to their own process.
constexpr int NO_DISPATCH = 77;

namespace {

thread_local bool is_counting;
thread_local unsigned long allocations;

// The kernel reads it at each system call of this thread: 1 turns the call into a signal.
volatile char is_blocked;
volatile unsigned long calls_with_syscalls;

// Notes that the HIP call makes a system call, and lets it run. Further system calls until the next HIP call
// are not noticed.
void on_syscall(int, siginfo_t *, void *context) {
    is_blocked = 0;
    calls_with_syscalls = calls_with_syscalls + 1;
    // Back to the `syscall` instruction; the registers are still those of before.
    static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP] -= 2;
}

bool watch_syscalls() {
    struct sigaction action = {};
    action.sa_sigaction = on_syscall;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSYS, &action, nullptr);
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &is_blocked) == 0;
}

void *counted(void *memory) {
    if (is_counting) allocations++;
    return memory;
}

constexpr int WARM_UP = 100, CALLS = 1000;

// Counts `CALLS` calls from one call site, after some that are not counted.
template <typename Call> void count(const char *name, Call call) {
    hipError_t failed = hipSuccess;
    unsigned long with_syscalls = 0;
    allocations = 0;
    for (int i = 0; i < WARM_UP + CALLS; i++) {
        bool is_counted = i >= WARM_UP;
        calls_with_syscalls = 0;
        is_counting = is_counted;
        is_blocked = is_counted;
        hipError_t result = call();
        is_blocked = 0;
        is_counting = false;
        with_syscalls += calls_with_syscalls;
        if (result != hipSuccess) failed = result;
    }
    check(failed, name);
    std::printf("%s %d %lu %lu\n", name, CALLS, with_syscalls, allocations);
}

} // namespace

// Those of the C library; C++ and Rust allocate with them too.
extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) { return counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size)); }
void *realloc(void *memory, size_t size) { return counted(__libc_realloc(memory, size)); }
void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }
int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = counted(__libc_memalign(alignment, size));
    return *memory == nullptr ? ENOMEM : 0;
}
}

extern "C" __global__ void fast_path_step(unsigned *y, unsigned key) { y[global_thread_x()] += key; }

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    constexpr size_t BYTES = 256;
    void *memory = nullptr, *pinned = nullptr;
    hipStream_t stream = nullptr, other = nullptr;
    hipEvent_t event = nullptr;
    CHECK(hipMalloc(&memory, BYTES));
    CHECK(hipHostMalloc(&pinned, BYTES, 0));
    CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    CHECK(hipEventCreate(&event));
    if (!watch_syscalls()) {
        std::puts("this kernel cannot dispatch system calls to their process");
        return NO_DISPATCH;
    }
    auto *y = static_cast<unsigned *>(memory);
    unsigned key = 1;
    void *arguments[] = {&y, &key};
    auto launch = [&](hipStream_t on) {
        return hipLaunchKernel(reinterpret_cast<const void *>(fast_path_step), dim3(1), dim3(64), arguments, 0, on);
    };
    if (argc > 1 && !std::strcmp(argv[1], "held")) {
        // From now on, for long enough, since the shim's setting says so.
        while (launch(stream) == hipSuccess && hipStreamQuery(stream) == hipSuccess) usleep(1000);
        count("hipLaunchKernel", [&] { return launch(stream); });
        return 0;
    }
    if (argc > 1 && !std::strcmp(argv[1], "beside")) {
        // All streams are deferred at first, later only the first one.
        while (launch(stream) == hipSuccess && hipStreamQuery(stream) == hipSuccess) usleep(1000);
        while (launch(other) == hipSuccess && hipStreamQuery(other) != hipSuccess) usleep(1000);
        count("hipLaunchKernel", [&] { return launch(other); });
        // The stream beside it must still be deferred.
        return hipStreamQuery(stream) != hipSuccess ? 0 : 1;
    }

    count("control", [] {
        void *volatile allocated = malloc(1);
        free(allocated);
        return syscall(SYS_getppid) >= 0 ? hipSuccess : hipError_t(1);
    });
    int device = 0;
    count("hipGetDevice", [&] { return hipGetDevice(&device); });
    count("hipLaunchKernel", [&] { return launch(stream); });
    count("hipLaunchKernel,null", [&] { return launch(nullptr); });
    count("hipMemsetAsync", [&] { return hipMemsetAsync(memory, 0, BYTES, stream); });
    count("hipMemcpyAsync", [&] { return hipMemcpyAsync(memory, pinned, BYTES, hipMemcpyHostToDevice, stream); });
    count("hipEventRecord", [&] { return hipEventRecord(event, stream); });
    count("hipEventQuery", [&] { return hipEventQuery(event); });
    count("hipEventSynchronize", [&] { return hipEventSynchronize(event); });
    count("hipStreamWaitEvent", [&] { return hipStreamWaitEvent(other, event, 0); });
    count("hipStreamQuery", [&] { return hipStreamQuery(stream); });
    count("hipStreamSynchronize", [&] { return hipStreamSynchronize(stream); });
    count("hipDeviceSynchronize", [] { return hipDeviceSynchronize(); });
    return 0;
}
