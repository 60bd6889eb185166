// Chains of calls: seven libraries of `tests/apps/origin_chain` in random order, above libcallers_bottom.so.

#ifndef CHAINS_HPP
#define CHAINS_HPP

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "hip_subset.h"

// As declared in the library.
struct Step {
    unsigned long (*call)(const Step *next, unsigned long way);
};
using Call = unsigned long(const Step *next, unsigned long way);

// Expected verdicts on launches, by tests/src/chains.rs: launches below RCCL are never suspended, those of a
// search pass through.
enum Way { SCHEDULE, PASS, KEEP };

// A library beside the program, opened with local scope.
inline void *opened(const std::string &name) {
    char path[4096] = {};
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) std::exit(1);
    std::string file = path;
    void *library = dlopen((file.substr(0, file.rfind('/') + 1) + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    return library;
}

template <typename Function> Function *found(void *library, const char *name) {
    return reinterpret_cast<Function *>(dlsym(library, name));
}

class Chains {
  public:
    static constexpr unsigned LEVELS = 7;

    struct Chain {
        Step steps[LEVELS + 1];
        Way way;

        // Launches at its end.
        void go() const { steps[0].call(&steps[1], way); }
    };

    // As many different chains as a large model has.
    std::vector<Chain> all{1000};
    // The address from which all of them call HIP.
    const void *bottom;

    // Launches add to `y`, on this stream.
    Chains(unsigned *y, hipStream_t stream, unsigned long seed) : random(seed) {
        constexpr const char *NAMES[] = {"libtorch_hip.so", "libhipblas.so",  "libhipblaslt.so", "librocblas.so",
                                         "libffi.so.8",     "libMIOpen.so.1", "librccl.so.1"};
        constexpr unsigned LIBRARIES = 7, SEARCH = 5, COLLECTIVE = 6;
        void *library = opened("libcallers_bottom.so");
        found<void(unsigned *, hipStream_t)>(library, "callers_bottom_init")(y, stream);
        Call *last = found<Call>(library, "callers_bottom");
        bottom = reinterpret_cast<const void *>(last);
        Call *runs[LIBRARIES], *searches = nullptr;
        for (unsigned number = 0; number < LIBRARIES; number++) {
            void *handle = opened(std::string("origin_chain/") + NAMES[number]);
            runs[number] = found<Call>(handle, "origin_run");
            if (number == SEARCH) searches = found<Call>(handle, "miopenFindConvolutionForwardAlgorithm");
        }
        for (Chain &chain : all) {
            chain.way = SCHEDULE;
            for (unsigned level = 0; level < LEVELS; level++) {
                unsigned number = next(LIBRARIES);
                bool is_search = number == SEARCH && next(2);
                if (number == COLLECTIVE) chain.way = KEEP;
                else if (is_search && chain.way == SCHEDULE) chain.way = PASS;
                chain.steps[level].call = is_search ? searches : runs[number];
            }
            chain.steps[LEVELS].call = last;
        }
    }

    // A random chain.
    const Chain &draw() { return all[next(unsigned(all.size()))]; }

  private:
    unsigned long random;

    unsigned next(unsigned bound) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return unsigned(random >> 33) % bound;
    }
};

#endif
