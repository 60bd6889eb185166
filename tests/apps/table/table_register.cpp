// Stands in for AMD's registration library, to show that a runtime leaves the work to it if it is installed.
//
// Appends `register NAME VERSION COUNT SIZE` to the file that TABLE_TOOL_REPORT names, and passes the table
// to no tool.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" int rocprofiler_register_library_api_table(const char *name, uint32_t (*)(void), uint32_t version,
                                                      void **tables, uint64_t count, uint64_t *identifier) {
    *identifier = 1;
    size_t size;
    std::memcpy(&size, tables[0], sizeof size);
    const char *path = std::getenv("TABLE_TOOL_REPORT");
    if (FILE *file = path ? std::fopen(path, "a") : nullptr) {
        std::fprintf(file, "register %s %u %lu %zu\n", name, version, count, size);
        std::fclose(file);
    }
    return 0;
}
