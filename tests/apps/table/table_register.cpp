// Stands in for AMD's registration library, to show that a runtime leaves the work to it if it is installed.
//
// Appends `register NAME VERSION COUNT SIZE` to the file that TABLE_TOOL_REPORT names. With TABLE_REGISTER_OFFERS set it
// offers each table to the tool in the global scope, as the genuine library does, and again when it is asked to. With
// TABLE_REGISTER_BUSY set it refuses all tables, as the genuine library does while another library registers.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace {

struct Registered {
    std::string name;
    uint32_t version;
    uint64_t instance;
    void *table;
};

std::vector<Registered> all;

// ROCP_REG_DEADLOCK
constexpr int DEADLOCK = 2;

int offer(Registered &registered) {
    using Receiver = int(const char *, uint64_t, uint64_t, void **, uint64_t);
    auto receiver = reinterpret_cast<Receiver *>(dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table"));
    if (!receiver || !std::getenv("TABLE_REGISTER_OFFERS")) return 0;
    return receiver(registered.name.c_str(), registered.version, registered.instance, &registered.table, 1);
}

} // namespace

extern "C" int rocprofiler_register_library_api_table(const char *name, uint32_t (*)(void), uint32_t version,
                                                      void **tables, uint64_t count, uint64_t *identifier) {
    if (std::getenv("TABLE_REGISTER_BUSY")) return DEADLOCK;
    *identifier = 1;
    size_t size;
    std::memcpy(&size, tables[0], sizeof size);
    const char *path = std::getenv("TABLE_TOOL_REPORT");
    if (FILE *file = path ? std::fopen(path, "a") : nullptr) {
        std::fprintf(file, "register %s %u %lu %zu\n", name, version, count, size);
        std::fclose(file);
    }
    uint64_t instance = 0;
    for (const Registered &other : all) instance += other.name == name;
    all.push_back({name, version, instance, tables[0]});
    return offer(all.back());
}

extern "C" int rocprofiler_register_invoke_all_registrations() {
    for (Registered &registered : all)
        if (int code = offer(registered)) return code;
    return 0;
}
