// The parts of a case: its registration, its checks, and its three outcomes.
//
// A case runs in a process of its own, so a failed check ends the process: there is no unwinding past work
// that is still blocked.

#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <initializer_list>
#include <sstream>
#include <string>

#include <hip/hip_runtime_api.h>

namespace suite {

// Exit status of a case that this runtime or device does not support, as in automake's test driver.
constexpr int SKIPPED = 77;

// One case; instances with static lifetime form the list that the driver runs.
struct Case {
    const char *area;
    const char *name;
    void (*run)();
    const Case *next;

    Case(const char *area, const char *name, void (*run)());
};

// Ends the process as failed, with the location and the found value.
[[noreturn]] void fail(const char *file, int line, const std::string &what);

// Ends the process as skipped.
[[noreturn]] void skip(const std::string &reason);

// A call's code must be among `allowed`; a function that this runtime does not support skips the case.
void expect(const char *file, int line, const char *call, hipError_t found,
            std::initializer_list<hipError_t> allowed);

// HIP's major version of the runtime on which the case runs, which may differ from that of the headers.
int runtime_major();

// A function of the runtime that the oldest supported headers do not declare; skips the case if it is
// missing.
template <typename Function> Function *find(const char *name) {
    void *address = dlsym(RTLD_DEFAULT, name);
    if (address == nullptr) skip(std::string("this runtime has no ") + name);
    return reinterpret_cast<Function *>(address);
}

template <typename T> std::string shown(const T &value) {
    std::ostringstream text;
    text << value;
    return text.str();
}

} // namespace suite

// Begins a case, in a file that defines AREA.
#define CASE(name)                                                                                           \
    static void name();                                                                                      \
    static const suite::Case name##_case(AREA, #name, name);                                                 \
    static void name()

// The call succeeds.
#define OK(call) suite::expect(__FILE__, __LINE__, #call, (call), {hipSuccess})

// The call returns one of these codes. There are several if releases of the runtime differ.
#define REFUSED(call, ...) suite::expect(__FILE__, __LINE__, #call, (call), {__VA_ARGS__})

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) suite::fail(__FILE__, __LINE__, #condition);                                       \
    } while (false)

#define EQUAL(found, wanted)                                                                                 \
    do {                                                                                                     \
        const auto found_value = (found);                                                                   \
        const auto wanted_value = (wanted);                                                                 \
        if (!(found_value == wanted_value))                                                                  \
            suite::fail(__FILE__, __LINE__,                                                                  \
                        #found " is " + suite::shown(found_value) + ", not " + suite::shown(wanted_value));  \
    } while (false)
