// A program without HIP that loads two plugins, each with its own copy of the runtime, as a system's ROCm and
// that of a wheel occur together in an interpreter. Runs them alternately, then both at once.
//
//     two_runtimes LAUNCHES

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

typedef bool Run(unsigned launches, unsigned seed);

static Run *plugin(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void *run = library ? dlsym(library, "plugin_run") : nullptr;
    if (!run) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(2);
    }
    return reinterpret_cast<Run *>(run);
}

int main(int argc, char **argv) {
    unsigned launches = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 100;
    Run *run[] = {plugin("libtwo_runtimes_a.so"), plugin("libtwo_runtimes_b.so")};
    bool is_right[] = {true, true};
    for (unsigned seed = 0; seed < 4; seed++) is_right[seed % 2] &= run[seed % 2](launches, seed);
    auto both = [&](int which) {
        for (unsigned seed = 4; seed < 6; seed++) is_right[which] &= run[which](launches, seed);
    };
    std::thread other(both, 1);
    both(0);
    other.join();
    for (bool right : is_right) std::puts(right ? "right" : "WRONG");
    return is_right[0] && is_right[1] ? 0 : 1;
}
