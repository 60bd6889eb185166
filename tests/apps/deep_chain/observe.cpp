// The witness: counts the distinct chains of callers that it has seen, and prints them.

#include "deep_chain.h"

#include <stdio.h>
#include <string.h>
#include <unwind.h>

namespace {

constexpr int frames_max = 128;
constexpr int chains_max = 256;

struct Chain {
    unsigned long count;
    int length;
    uintptr_t frames[frames_max];
};

Chain chains[chains_max];

_Unwind_Reason_Code note(_Unwind_Context *context, void *argument) {
    auto &chain = *static_cast<Chain *>(argument);
    if (chain.length == frames_max) {
        return _URC_END_OF_STACK;
    }
    chain.frames[chain.length++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

void print() {
    for (const Chain &chain : chains) {
        if (chain.count == 0) {
            break;
        }
        printf("chain %lu", chain.count);
        // Without the witness itself and its caller, which calls HIP from another address than it calls the
        // witness.
        for (int frame = 2; frame < chain.length; ++frame) {
            printf(" %lx", static_cast<unsigned long>(chain.frames[frame]));
        }
        printf("\n");
    }
    fflush(stdout);
}

struct AtExit {
    ~AtExit() { print(); }
} at_exit;

} // namespace

void deep_observe() {
    Chain seen = {};
    _Unwind_Backtrace(note, &seen);
    for (Chain &chain : chains) {
        if (chain.count == 0) {
            chain = seen;
        }
        if (chain.length == seen.length && memcmp(chain.frames, seen.frames, sizeof seen.frames) == 0) {
            ++chain.count;
            return;
        }
    }
}
