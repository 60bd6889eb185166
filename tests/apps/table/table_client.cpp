// Clients that reach HIP without being linked with it.
//
//     table_client calls N LIBRARY..       N calls in each by dlsym, and N through the result of hipGetProcAddress
//     table_client plugin N PROFILER LIBRARY   the same, after PROFILER was loaded into a scope of its own
//     table_client late N PROFILER LIBRARY     N calls, then PROFILER is loaded so and asks for the tables, then N calls
//     table_client threads T LIBRARY       T threads make the process's first call together
//     table_client load LIBRARY FILE NAME  loads a module and looks up its kernel NAME; prints result codes

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <vector>

namespace {

constexpr int VERSION = 600;

void *open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) std::fprintf(stderr, "table_client: %s\n", dlerror());
    return library;
}

template <typename Function> Function *find(void *library, const char *name) {
    return reinterpret_cast<Function *>(dlsym(library, name));
}

int calls(unsigned long count, char **paths) {
    for (; *paths; paths++) {
        void *library = open_library(*paths);
        if (!library) return 1;
        auto get_device_count = find<int(int *)>(library, "hipGetDeviceCount");
        auto get_proc_address =
            find<int(const char *, void **, int, unsigned long, unsigned *)>(library, "hipGetProcAddress");
        void *found = nullptr;
        unsigned status = 77;
        int number = 0, errors = get_proc_address("hipGetDevice", &found, VERSION, 0, &status);
        if (errors || status || !found) return 1;
        auto get_device = reinterpret_cast<int (*)(int *)>(found);
        for (unsigned long call = 0; call < count; call++) errors += get_device_count(&number) + get_device(&number);
        if (errors) return 1;
    }
    std::puts("ok");
    return 0;
}

int plugin(unsigned long count, char **paths) { return open_library(paths[0]) ? calls(count, paths + 1) : 1; }

// As rocprofiler-sdk does it for a tool that starts late.
int late(unsigned long count, char **paths) {
    if (calls(count, paths + 1) || !open_library(paths[0])) return 1;
    setenv("ROCPROFILER_REGISTER_LIBRARY", paths[0], 1);
    void *registration = dlopen("librocprofiler-register.so.0", RTLD_NOLOAD | RTLD_LAZY);
    if (!registration || find<int()>(registration, "rocprofiler_register_invoke_all_registrations")()) return 1;
    return calls(count, paths + 1);
}

int threads(unsigned long count, const char *path) {
    void *library = open_library(path);
    if (!library) return 1;
    auto get_device_count = find<int(int *)>(library, "hipGetDeviceCount");
    std::atomic<unsigned long> waiting{0};
    std::atomic<int> errors{0};
    std::vector<std::thread> all;
    for (unsigned long number = 0; number < count; number++)
        all.emplace_back([&] {
            int devices = 0;
            for (waiting++; waiting < count;) std::this_thread::yield();
            errors += get_device_count(&devices) != 0 || devices < 1;
        });
    for (std::thread &thread : all) thread.join();
    std::puts(errors ? "WRONG" : "ok");
    return errors != 0;
}

int load(const char *path, const char *file, const char *name) {
    void *library = open_library(path);
    if (!library) return 1;
    void *module = nullptr, *function = nullptr;
    int registers = 0;
    int loaded = find<int(void **, const char *)>(library, "hipModuleLoad")(&module, file);
    int found = find<int(void **, void *, const char *)>(library, "hipModuleGetFunction")(&function, module, name);
    // HIP_FUNC_ATTRIBUTE_NUM_REGS
    int asked = find<int(int *, int, void *)>(library, "hipFuncGetAttribute")(&registers, 4, function);
    std::printf("load %d function %d attribute %d registers %s\n", loaded, found, asked, registers > 0 ? "some" : "none");
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc >= 4 && !std::strcmp(argv[1], "calls")) return calls(std::strtoul(argv[2], nullptr, 0), argv + 3);
    if (argc == 5 && !std::strcmp(argv[1], "plugin")) return plugin(std::strtoul(argv[2], nullptr, 0), argv + 3);
    if (argc == 5 && !std::strcmp(argv[1], "late")) return late(std::strtoul(argv[2], nullptr, 0), argv + 3);
    if (argc == 4 && !std::strcmp(argv[1], "threads")) return threads(std::strtoul(argv[2], nullptr, 0), argv[3]);
    if (argc == 5 && !std::strcmp(argv[1], "load")) return load(argv[2], argv[3], argv[4]);
    std::fprintf(stderr, "usage: table_client calls|plugin|late|threads|load ..\n");
    return 2;
}
