// For benchmarks: a HIP call from a chosen depth, with the stack shifted by a chosen distance.

#include <alloca.h>

#include "hip_subset.h"

namespace {

__attribute__((noinline)) int descend(unsigned depth) {
    volatile unsigned here = depth;
    if (here <= 1) {
        return static_cast<int>(hipStreamSynchronize(nullptr)) + 0;
    }
    return descend(depth - 1) + static_cast<int>(here * 0);
}

} // namespace

// `depth` frames below this one. Calls with another `shift` have every frame at other addresses, and the same chain.
extern "C" int deep_bench(unsigned depth, unsigned shift) {
    volatile char *room = static_cast<volatile char *>(alloca(16 * shift + 16));
    room[0] = 0;
    return descend(depth) + room[0];
}
