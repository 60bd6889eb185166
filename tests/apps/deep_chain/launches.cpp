// To be preloaded: lets the witness record every hipModuleLaunchKernel of a program that looks the function
// up.

#include <dlfcn.h>
#include <string.h>

#include "deep_chain.h"
#include "hip_subset.h"

namespace {

using Lookup = void *(*)(void *, const char *);

decltype(&hipModuleLaunchKernel) launch;

// Records, then jumps: HIP is entered from the same call site and on the same stack as without it.
hipError_t noted(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                 unsigned block_y, unsigned block_z, unsigned lds_size, hipStream_t stream, void **arguments,
                 void **extra) {
    deep_observe();
    [[clang::musttail]] return launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, lds_size, stream,
                                      arguments, extra);
}

} // namespace

// Under another name, since the header's declaration has attributes that prevent clang from jumping.
extern "C" void *find(void *handle, const char *name) __asm__("dlsym");

extern "C" void *find(void *handle, const char *name) {
    static Lookup genuine;
    if (genuine == nullptr) {
        genuine = reinterpret_cast<Lookup>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
    }
    if (strcmp(name, "hipModuleLaunchKernel") == 0) {
        launch = reinterpret_cast<decltype(launch)>(genuine(handle, name));
        return launch == nullptr ? nullptr : reinterpret_cast<void *>(noted);
    }
    // A jump too: the meaning of RTLD_NEXT depends on the caller.
    [[clang::musttail]] return genuine(handle, name);
}
