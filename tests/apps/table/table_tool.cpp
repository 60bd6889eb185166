// A profiling tool as the HIP runtime sees one: it receives dispatch tables and puts a counter before every
// entry.
//
// Appends to the file that TABLE_TOOL_REPORT names: `table NAME VERSION INSTANCE SIZE` when it receives one,
// and `calls NAME INSTANCE INDEX COUNT` for each entry that was called before the process ends. Built three
// times: with both symbols of the protocol and with only one of them each.

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace {

// Entries of the newest runtime table.
constexpr size_t ENTRIES = 517;

void report(const char *format, ...) {
    const char *path = std::getenv("TABLE_TOOL_REPORT");
    FILE *file = path ? std::fopen(path, "a") : nullptr;
    if (!file) return;
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(file, format, arguments);
    va_end(arguments);
    std::fclose(file);
}

} // namespace

// `NAME_thunks`: 16 bytes for each entry, which count the call and continue to the original with arguments
// untouched. An entry carries no context, so each table has its own thunks.
#define COUNTED_TABLE(NAME)                                                                                           \
    extern "C" __attribute__((visibility("hidden"))) uint64_t NAME##_calls[ENTRIES];                                  \
    extern "C" __attribute__((visibility("hidden"))) void *NAME##_originals[ENTRIES];                                 \
    extern "C" __attribute__((visibility("hidden"))) char NAME##_thunks[];                                            \
    uint64_t NAME##_calls[ENTRIES];                                                                                   \
    void *NAME##_originals[ENTRIES];                                                                                  \
    asm(".text\n.p2align 4\n.globl " #NAME "_thunks\n.hidden " #NAME "_thunks\n" #NAME "_thunks:\n"                   \
        ".set entry, 0\n"                                                                                             \
        ".rept 517\n"                                                                                                 \
        ".p2align 4\n"                                                                                                \
        "lock incq " #NAME "_calls+8*entry(%rip)\n"                                                                   \
        "jmp *" #NAME "_originals+8*entry(%rip)\n"                                                                    \
        ".set entry, entry+1\n"                                                                                       \
        ".endr\n");

COUNTED_TABLE(runtime_0)
COUNTED_TABLE(runtime_1)
COUNTED_TABLE(compiler_0)
COUNTED_TABLE(compiler_1)

namespace {

struct CountedTable {
    const char *name;
    uint64_t instance;
    uint64_t *calls;
    void **originals;
    char *thunks;
};

const CountedTable TABLES[] = {
    {"hip", 0, runtime_0_calls, runtime_0_originals, runtime_0_thunks},
    {"hip", 1, runtime_1_calls, runtime_1_originals, runtime_1_thunks},
    {"hip_compiler", 0, compiler_0_calls, compiler_0_originals, compiler_0_thunks},
    {"hip_compiler", 1, compiler_1_calls, compiler_1_originals, compiler_1_thunks},
};

#ifndef WITHOUT_RECEIVER
constexpr size_t INSTANCES = 2;
// Long enough for other threads to make their first calls meanwhile.
constexpr unsigned SLOW_US = 20'000;

void patch(const CountedTable &counted, void **entries, size_t count) {
    for (size_t index = 0; index < count && index < ENTRIES; index++) {
        counted.originals[index] = entries[index];
        entries[index] = counted.thunks + 16 * index;
    }
}
#endif

__attribute__((destructor)) void report_calls() {
    for (const CountedTable &counted : TABLES)
        for (size_t index = 0; index < ENTRIES; index++)
            if (uint64_t calls = counted.calls[index])
                report("calls %s %lu %zu %lu\n", counted.name, counted.instance, index, calls);
}

} // namespace

extern "C" {

#ifndef WITHOUT_CONFIGURE
// This function makes a library a tool; the receiver of the tables would call it.
void *rocprofiler_configure(uint32_t, const char *, uint32_t, void *) { return nullptr; }
#endif

#ifndef WITHOUT_RECEIVER
int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables, uint64_t count) {
    if (count != 1 || instance >= INSTANCES) return 1;
    size_t size;
    std::memcpy(&size, tables[0], sizeof size);
    report("table %s %lu %lu %zu\n", name, version, instance, size);
    usleep(SLOW_US);
    for (const CountedTable &counted : TABLES)
        if (counted.instance == instance && std::strcmp(counted.name, name) == 0)
            patch(counted, static_cast<void **>(tables[0]) + 1, (size - sizeof size) / sizeof(void *));
    return 0;
}
#endif
}
