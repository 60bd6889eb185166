// A library that is loaded and closed repeatedly. FRAME is the size of its frame, so that the unwind rows of
// one such library do not fit another at the same addresses.

#include "deep_chain.h"

#include "hip_subset.h"

extern "C" int deep_plugin() {
    volatile char frame[FRAME];
    frame[0] = 1;
    deep_observe();
    return static_cast<int>(hipStreamSynchronize(nullptr)) + frame[0] * 0;
}
