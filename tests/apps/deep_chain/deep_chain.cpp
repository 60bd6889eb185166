// deep_chain COUNT: calls HIP COUNT times through seven libraries, along several paths, and prints the
// chains.
// deep_chain COUNT FILE FILE: calls HIP from two libraries alternately. Each is loaded again every time, so
// that one lies where the other was.

#include "deep_chain.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: deep_chain COUNT [FILE FILE]\n");
        return 2;
    }
    const unsigned count = static_cast<unsigned>(atoi(argv[1]));
    int error = 0;
    for (unsigned call = 0; call < count; ++call) {
        if (argc == 2) {
            error |= deep_1(call % 12);
            continue;
        }
        void *library = dlopen(argv[2 + call % 2], RTLD_NOW);
        if (library == nullptr) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        auto plugin = reinterpret_cast<int (*)()>(dlsym(library, "deep_plugin"));
        error |= plugin();
        dlclose(library);
    }
    return error != 0;
}
