// Calls HIP through a function that it generates, as a just-in-time compiler would.
//
//     generated_code KIND CALLS [named] [memfd]
//
// Prints `ready`, makes the calls when it gets SIGUSR1, prints `done` and stays until it is killed. KIND
// selects how the function sets up its frame. `named` publishes its name where profilers look for it. With
// `memfd` the function lies in a memfd that is mapped twice, so that no mapping is both writable and
// executable.

#include <alloca.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "hip_subset.h"

namespace {

using Callee = hipError_t (*)(hipStream_t);

// Calls the function with a null pointer.
using Generated = int (*)(Callee, long zero);

struct Kind {
    const char *name;
    // What it calls: HIP itself, or a function of this program that does.
    bool direct;
    const char *code;
    size_t size;
};

// mov rax, rdi; xor edi, edi; call rax
#define CALL "\x48\x89\xf8\x31\xff\xff\xd0"
#define KIND(name, direct, code) {name, direct, code, sizeof(code) - 1}

const Kind KINDS[] = {
    // push rbp; mov rbp, rsp; push rsi; push rsi; CALL; nop; leave; ret
    KIND("frame-pointer", false, "\x55\x48\x89\xe5\x56\x56" CALL "\x90\xc9\xc3"),
    KIND("direct", true, "\x55\x48\x89\xe5\x56\x56" CALL "\x90\xc9\xc3"),
    // push rbp; mov rbp, rsp; CALL; pop rbp; ret
    KIND("epilogue", false, "\x55\x48\x89\xe5" CALL "\x5d\xc3"),
    // sub rsp, 8; CALL; add rsp, 8; ret
    KIND("no-frame-pointer-epilogue", false, "\x48\x83\xec\x08" CALL "\x48\x83\xc4\x08\xc3"),
    // push rbp; mov rbp, rsp; sub rsp, 3072; mov rdx, rdi; mov rdi, rsp; mov ecx, 384; xor eax, eax; rep stosq; mov rdi, rdx;
    // CALL; nop; leave; ret
    KIND("large-frame", false,
         "\x55\x48\x89\xe5\x48\x81\xec\x00\x0c\x00\x00\x48\x89\xfa\x48\x89\xe7\xb9\x80\x01\x00\x00\x31\xc0"
         "\xf3\x48\xab\x48\x89\xd7" CALL "\x90\xc9\xc3"),
    // push rsi; CALL; nop; pop rsi; ret
    KIND("no-frame-pointer", false, "\x56" CALL "\x90\x5e\xc3"),
};

const Kind *find(const char *name) {
    for (const Kind &kind : KINDS) {
        if (strcmp(kind.name, name) == 0) {
            return &kind;
        }
    }
    return nullptr;
}

constexpr size_t SIZE = 4096;

Generated generate(const Kind &kind) {
    void *page = mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return nullptr;
    }
    memcpy(page, kind.code, kind.size);
    return mprotect(page, SIZE, PROT_READ | PROT_EXEC) == 0 ? reinterpret_cast<Generated>(page) : nullptr;
}

Generated generate_in_memfd(const Kind &kind) {
    int file = memfd_create("doublemapper", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, SIZE) != 0) {
        return nullptr;
    }
    void *to_write = mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void *to_run = mmap(nullptr, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    if (to_write == MAP_FAILED || to_run == MAP_FAILED) {
        return nullptr;
    }
    memcpy(to_write, kind.code, kind.size);
    return reinterpret_cast<Generated>(to_run);
}

bool has(char **arguments, const char *wanted) {
    for (; *arguments; arguments++) {
        if (strcmp(*arguments, wanted) == 0) {
            return true;
        }
    }
    return false;
}

} // namespace

__attribute__((noinline)) static hipError_t leaf(hipStream_t stream) {
    volatile hipError_t status = hipStreamSynchronize(stream);
    return status;
}

// Keeps a frame pointer, since the size of its frame is not known. A generated function that does not set up
// its own frame pointer finds this one in rbp.
__attribute__((noinline)) static int through(Generated generated, Callee callee, unsigned size) {
    volatile char *room = static_cast<volatile char *>(alloca(size));
    room[0] = 0;
    return generated(callee, 0) + room[0];
}

int main(int count, char **arguments) {
    const Kind *kind = count > 2 ? find(arguments[1]) : nullptr;
    Generated generated = nullptr;
    if (kind) {
        generated = has(arguments, "memfd") ? generate_in_memfd(*kind) : generate(*kind);
    }
    if (!generated) {
        fprintf(stderr, "usage: generated_code KIND CALLS [named] [memfd]\n");
        return 2;
    }
    std::string names = "/tmp/perf-" + std::to_string(getpid()) + ".map";
    if (has(arguments, "named")) {
        FILE *file = fopen(names.c_str(), "w");
        fprintf(file, "%lx %zx step of:generated code\n", reinterpret_cast<unsigned long>(generated), kind->size);
        fclose(file);
    }
    // The runtime is loaded, and known to a tracer, before the counted calls.
    hipDeviceSynchronize();
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    puts("ready");
    fflush(stdout);
    int received = 0;
    sigwait(&signals, &received);
    int (*volatile outer)(Generated, Callee, unsigned) = through;
    for (long call = 0; received == SIGUSR1 && call < atol(arguments[2]); call++) {
        if (outer(generated, kind->direct ? hipStreamSynchronize : leaf, 64) != 0) {
            return 1;
        }
        // A tracer walks the first stacks differently from those after it knows the process.
        usleep(1000);
    }
    puts("done");
    fflush(stdout);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigwait(&signals, &received);
    unlink(names.c_str());
}
