// Functions with frames of 64 and 200 KiB, in a library whose unwind table takes long to build: stacks that lead there from the start of a
// program are copied.

#include "deep_chain.h"

#include <string.h>

#include "hip_subset.h"

// A hundred thousand functions that nothing calls, each with a row of its own.
asm(R"(
    .text
    .rept   100000
    .cfi_startproc
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .endr
)");

namespace {

constexpr unsigned marks_count = 16;

__attribute__((noinline)) int leaf() {
    deep_observe();
    return static_cast<int>(hipStreamSynchronize(nullptr)) + 0;
}

__attribute__((noinline)) int descend(unsigned depth) {
    volatile unsigned here = depth;
    return here == 0 ? leaf() + 0 : descend(depth - 1) + static_cast<int>(here * 0);
}

// As in libtorch_cuda, where such a frame has 65,648 bytes. The marks point into code, so that no two calls have the same words.
template <unsigned bytes> int call_from(unsigned call, bool is_used) {
    char frame[bytes];
    void *volatile marks[marks_count];
    for (unsigned mark = 0; mark < marks_count; ++mark) {
        marks[mark] = call >> mark & 1 ? reinterpret_cast<void *>(&leaf) : nullptr;
    }
    if (is_used) {
        memset(frame, 0x5a, bytes);
    }
    // The compiler has to keep all of it.
    asm volatile("" : : "r"(frame) : "memory");
    const int error = descend(call % 3);
    asm volatile("" : : "r"(frame) : "memory");
    return error;
}

} // namespace

extern "C" int deep_64_kib(unsigned call, bool is_used) { return call_from<65536>(call, is_used) + 0; }

extern "C" int deep_200_kib(unsigned call, bool is_used) { return call_from<204800>(call, is_used) + 0; }
