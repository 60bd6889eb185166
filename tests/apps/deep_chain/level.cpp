// One level of the chain, selected by LEVEL. Each sets up its frame differently.

#include "deep_chain.h"

#include <alloca.h>
#include <signal.h>
#include <stdlib.h>

#include "hip_subset.h"

#if LEVEL == 1

// A depth that changes from call to call.
__attribute__((noinline)) static int descend(unsigned depth, unsigned way) {
    volatile unsigned here = depth;
    return here == 0 ? deep_2(way) : descend(depth - 1, way) + 0;
}

int deep_1(unsigned way) { return descend(way % 3, way); }

#elif LEVEL == 2

// A large frame, and one whose size is only known at run time: the compiler needs a frame pointer.
int deep_2(unsigned way) {
    volatile char buffer[6000];
    volatile char *more = static_cast<volatile char *>(alloca(64 + 512 * (way % 5)));
    buffer[way % sizeof buffer] = 1;
    more[0] = 1;
    return deep_3(way) + buffer[0] * 0 + more[0] * 0;
}

#elif LEVEL == 3

// A realigned frame as GCC makes it: the frame is found through a word that the frame pointer points to.
asm(R"(
    .text
    .globl  deep_3
    .type   deep_3, @function
deep_3:
    .cfi_startproc
    leaq    8(%rsp), %r10
    .cfi_def_cfa %r10, 0
    andq    $-64, %rsp
    pushq   -8(%r10)
    pushq   %rbp
    .cfi_escape 0x10, 0x6, 0x2, 0x76, 0x0
    movq    %rsp, %rbp
    pushq   %r10
    .cfi_escape 0xf, 0x3, 0x76, 0x78, 0x6
    subq    $40, %rsp
    call    deep_4@PLT
    addq    $40, %rsp
    popq    %r10
    .cfi_def_cfa %r10, 0
    popq    %rbp
    leaq    -8(%r10), %rsp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size   deep_3, . - deep_3
)");

#elif LEVEL == 4

// Every other call comes from a signal handler.
static volatile int result;
static volatile unsigned chosen;

static void handle(int) { result = deep_5(chosen); }

int deep_4(unsigned way) {
    if (way % 2 == 0) {
        return deep_5(way);
    }
    struct sigaction action = {};
    action.sa_handler = handle;
    sigaction(SIGUSR1, &action, nullptr);
    chosen = way;
    raise(SIGUSR1);
    return result;
}

#elif LEVEL == 5

// Through the C library and back.
static thread_local unsigned chosen;
static thread_local int result;

static int compare(const void *, const void *) {
    result = deep_6(chosen);
    return 0;
}

int deep_5(unsigned way) {
    int pair[2] = {1, 2};
    chosen = way;
    qsort(pair, 2, sizeof *pair, compare);
    return result;
}

#elif LEVEL == 6

// The frame pointer's register holds another value, which differs from call to call.
int deep_6(unsigned way) {
    unsigned changing = way * 2654435761u;
    int error;
    asm volatile("" : "+r"(changing));
    register unsigned long in_rbp asm("rbp");
    asm volatile("movq %1, %0" : "=r"(in_rbp) : "r"(static_cast<unsigned long>(changing)) : "memory");
    error = deep_7(way);
    asm volatile("" : : "r"(in_rbp));
    return error;
}

#else

int deep_7(unsigned) {
    deep_observe();
    return static_cast<int>(hipStreamSynchronize(nullptr)) + 0;
}

#endif
