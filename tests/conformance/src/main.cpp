// The driver: lists cases, runs one in this process, or runs each in a process of its own.
//
//     conformance              every case, one line each; status 1 if any failed
//     conformance list         the names, one a line
//     conformance run NAME     one case; status 0, 1 (failed) or 77 (skipped), with the reason on standard output

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "suite.hpp"

extern char **environ;

namespace suite {

// The alarm that ends a case that hangs.
constexpr unsigned LIMIT_S = 30;

static const Case *&first() {
    static const Case *head = nullptr;
    return head;
}

Case::Case(const char *area, const char *name, void (*run)())
    : area(area), name(name), run(run), next(first()) {
    first() = this;
}

// Threads may be blocked in the runtime, so nothing is torn down.
[[noreturn]] static void end(int status, const std::string &what) {
    std::printf("%s\n", what.c_str());
    std::fflush(stdout);
    _exit(status);
}

void fail(const char *file, int line, const std::string &what) {
    const char *slash = std::strrchr(file, '/');
    end(1, std::string(slash ? slash + 1 : file) + ":" + std::to_string(line) + ": " + what);
}

void skip(const std::string &reason) { end(SKIPPED, reason); }

void expect(const char *file, int line, const char *call, hipError_t found,
            std::initializer_list<hipError_t> allowed) {
    for (hipError_t code : allowed)
        if (found == code) return;
    if (found == hipErrorNotSupported) skip(std::string("not supported by this runtime: ") + call);
    auto described = [](hipError_t code) {
        return std::to_string(code) + " (" + hipGetErrorName(code) + ")";
    };
    std::string wanted;
    for (hipError_t code : allowed) wanted += (wanted.empty() ? "" : " or ") + described(code);
    fail(file, line, std::string(call) + " returned " + described(found) + ", not " + wanted);
}

int runtime_major() {
    int version = 0;
    OK(hipRuntimeGetVersion(&version));
    return version / 10000000;
}

} // namespace suite

static std::map<std::string, const suite::Case *> cases() {
    std::map<std::string, const suite::Case *> sorted;
    for (const suite::Case *c = suite::first(); c != nullptr; c = c->next)
        sorted[std::string(c->area) + "::" + c->name] = c;
    return sorted;
}

static int run(const char *name) {
    auto all = cases();
    auto found = all.find(name);
    if (found == all.end()) {
        std::fprintf(stderr, "conformance: no case `%s`\n", name);
        return 2;
    }
    alarm(suite::LIMIT_S);
    found->second->run();
    return 0;
}

// Runs one case in a child; returns its status, or 128 plus the signal that ended it.
static int spawn(const std::string &name) {
    std::string argument = name;
    char program[] = "conformance", verb[] = "run";
    char *arguments[] = {program, verb, argument.data(), nullptr};
    pid_t child = 0;
    if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) return 2;
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run_all() {
    unsigned passed = 0, failed = 0, skipped = 0;
    for (const auto &[name, unused] : cases()) {
        (void)unused;
        std::printf("%s: ", name.c_str());
        std::fflush(stdout);
        int status = spawn(name);
        if (status == 0) std::printf("ok\n");
        if (status > 1 && status != suite::SKIPPED) std::printf("ended with status %d\n", status);
        (status == 0 ? passed : status == suite::SKIPPED ? skipped : failed)++;
    }
    std::printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed == 0 ? 0 : 1;
}

int main(int count, char **arguments) {
    if (count == 3 && std::strcmp(arguments[1], "run") == 0) return run(arguments[2]);
    if (count == 2 && std::strcmp(arguments[1], "list") == 0) {
        for (const auto &entry : cases()) std::printf("%s\n", entry.first.c_str());
        return 0;
    }
    if (count == 1) return run_all();
    std::fprintf(stderr, "usage: conformance [list | run NAME]\n");
    return 2;
}
