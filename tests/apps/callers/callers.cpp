// A program over libraries with the names of AMD's. Prints what it did as lines `name value`, each when it is done; `wrong 0`
// last, unless something was computed wrong.
//
//     callers create           makes a handle of librocblas.so.4, uses and destroys it
//     callers find             has libMIOpen.so.1 search for the quickest kernel, behind a launch of its own
//     callers default-stream   launches on the null stream, by itself
//     callers meet FILE RANK RANKS   calls librccl.so.1 once; FILE is mapped by all ranks
//     callers domain WHO DOMAIN      launches after WHO (`library`, `thread`) has said which domain it is of
//     callers steps N          launches by turns by itself and by librocblas.so.4, N in all
//     callers chains N SEED    N launches by libcallers_bottom.so, each through seven libraries of `tests/apps/origin_chain`
//
// Before it begins it prints `ready`, fills memory every other millisecond until it is given a line, prints `warm` and waits for
// another one.

#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>

#include "callers.h"
#include "program.hpp"
#include "xsched_domain.h"

extern "C" void callers_own(unsigned *y, unsigned key);

namespace {

constexpr size_t BYTES = CALLERS_SIZE * sizeof(unsigned);

hipStream_t stream;
unsigned *y, *pinned;
unsigned expected;

void say(const char *name, long value) {
    std::printf("%s %ld\n", name, value);
    std::fflush(stdout);
}

void require(int error, const char *what) { check(hipError_t(error), what); }

void own_step(unsigned key, hipStream_t on) {
    void *arguments[] = {&y, &key};
    CHECK(hipLaunchKernel(reinterpret_cast<const void *>(callers_own), dim3(1), dim3(CALLERS_SIZE), arguments, 0, on));
    expected = callers_step_of(expected, key);
}

// Byte by byte, so that the next line is left for `poll`.
void take_a_line() {
    char byte = 0;
    while (byte != '\n' && read(0, &byte, 1) == 1) {
    }
}

void wait_for_the_beginning() {
    say("ready", getpid());
    pollfd input = {0, POLLIN, 0};
    do {
        CHECK(hipMemsetAsync(y, 0, BYTES, stream));
        CHECK(hipStreamSynchronize(stream));
    } while (poll(&input, 1, 2) == 0);
    take_a_line();
    say("warm", 1);
    take_a_line();
}

// 1 if memory is not what all steps in their order make of it.
int is_wrong() {
    CHECK(hipMemcpyAsync(pinned, y, BYTES, hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    return pinned[0] != expected || pinned[CALLERS_SIZE - 1] != expected;
}

void create() {
    own_step(3, stream);
    rocblas_handle *handle = nullptr;
    require(rocblas_create_handle(&handle), "rocblas_create_handle");
    say("created", 1);
    require(rocblas_sstep(handle, y, 7, stream), "rocblas_sstep");
    expected = callers_step_of(expected, 7);
    own_step(9, stream);
    require(rocblas_destroy_handle(handle), "rocblas_destroy_handle");
}

void find() {
    unsigned *scratch = nullptr;
    CHECK(hipMalloc(reinterpret_cast<void **>(&scratch), BYTES));
    own_step(3, stream);
    int quickest = -1;
    float ms = 0;
    require(miopenFindConvolutionForwardAlgorithm(scratch, stream, &quickest, &ms), "miopenFind");
    say("quickest", quickest);
    own_step(5, stream);
}

void default_stream() {
    for (unsigned key = 0; key < 100; key++) own_step(key, nullptr);
    say("launched", 100);
    CHECK(hipDeviceSynchronize());
}

void meet(const char *file, unsigned rank, unsigned ranks) {
    int fd = open(file, O_RDWR);
    void *mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || mapped == MAP_FAILED) {
        std::perror(file);
        std::exit(1);
    }
    own_step(3, stream);
    require(ncclAllReduce(static_cast<unsigned *>(mapped), rank, ranks, stream), "ncclAllReduce");
    CHECK(hipStreamSynchronize(stream));
    say("met", 1);
}

void domain(const char *who, int which) {
    bool is_library = !std::strcmp(who, "library");
    if (!hipSetSchedulingDomain || !hipGetSchedulingDomain) {
        say("without", 1);
        require(speaker_step(which, y, 7, stream), "speaker_step");
        expected = callers_step_of(0, 7);
        return;
    }
    if (!is_library) say("set", hipSetSchedulingDomain(static_cast<hipSchedulingDomain_t>(which)));
    hipSchedulingDomain_t own = HIP_SCHED_DOMAIN_AUTO;
    CHECK(hipError_t(hipGetSchedulingDomain(&own)));
    require(speaker_step(is_library ? which : -1, y, 7, stream), "speaker_step");
    expected = callers_step_of(0, 7);
    say("thread_domain", own);
    say("library_domain", speaker_domain());
    say("refused", hipSetSchedulingDomain(static_cast<hipSchedulingDomain_t>(3)));
    CHECK(hipStreamSynchronize(stream));
    say("done", 1);
}

void steps(unsigned long count) {
    for (unsigned long number = 0; number < count; number++) {
        auto key = static_cast<unsigned>(number);
        if (number % 2) own_step(key, stream);
        else {
            require(rocblas_sstep(nullptr, y, key, stream), "rocblas_sstep");
            expected = callers_step_of(expected, key);
        }
    }
}

void *opened(const std::string &name) {
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

struct Step {
    unsigned long (*call)(const Step *next, unsigned long way);
};
using Call = unsigned long(const Step *next, unsigned long way);

// What ought to become of launches, by tests/e2e/verdict_chains.rs: those below RCCL are kept, those of a search passed on.
enum Way { SCHEDULE, PASS, KEEP };

void chains(unsigned long count, unsigned long random) {
    constexpr const char *NAMES[] = {"libtorch_hip.so", "libhipblas.so",  "libhipblaslt.so", "librocblas.so",
                                     "libffi.so.8",     "libMIOpen.so.1", "librccl.so.1"};
    constexpr unsigned LEVELS = 7, LIBRARIES = 7, SEARCH = 5, COLLECTIVE = 6;
    void *bottom = opened("libcallers_bottom.so");
    found<void(unsigned *, hipStream_t)>(bottom, "callers_bottom_init")(y, stream);
    Call *runs[LIBRARIES], *searches = nullptr;
    for (unsigned library = 0; library < LIBRARIES; library++) {
        void *handle = opened(std::string("origin_chain/") + NAMES[library]);
        runs[library] = found<Call>(handle, "origin_run");
        if (library == SEARCH) searches = found<Call>(handle, "miopenFindConvolutionForwardAlgorithm");
    }
    auto next = [&random](unsigned bound) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return unsigned(random >> 33) % bound;
    };
    // As many different ones as a large model has, in any order.
    struct Chain {
        Step steps[LEVELS + 1];
        Way way;
    };
    std::vector<Chain> all(1000);
    for (Chain &chain : all) {
        chain.way = SCHEDULE;
        for (unsigned level = 0; level < LEVELS; level++) {
            unsigned library = next(LIBRARIES);
            bool is_search = library == SEARCH && next(2);
            if (library == COLLECTIVE) chain.way = KEEP;
            else if (is_search && chain.way == SCHEDULE) chain.way = PASS;
            chain.steps[level].call = is_search ? searches : runs[library];
        }
        chain.steps[LEVELS].call = found<Call>(bottom, "callers_bottom");
    }
    long made[3] = {};
    for (unsigned long number = 0; number < count; number++) {
        const auto &[steps, way] = all[next(unsigned(all.size()))];
        steps[0].call(&steps[1], way);
        made[way] += 1;
        if (number % 512 == 511) CHECK(hipStreamSynchronize(stream));
    }
    say("to_schedule", made[SCHEDULE]);
    say("to_pass", made[PASS]);
    say("to_keep", made[KEEP]);
    CHECK(hipMemcpyAsync(pinned, y, BYTES, hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    say("wrong", pinned[0] != unsigned(count));
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    std::string mode = argv[1];
    CHECK(hipMalloc(reinterpret_cast<void **>(&y), BYTES));
    CHECK(hipHostMalloc(reinterpret_cast<void **>(&pinned), BYTES, 0));
    CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    wait_for_the_beginning();
    if (mode == "create") create();
    else if (mode == "find") find();
    else if (mode == "default-stream") default_stream();
    else if (mode == "meet" && argc == 5) meet(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
    else if (mode == "domain" && argc == 4) domain(argv[2], std::atoi(argv[3]));
    else if (mode == "steps" && argc == 3) steps(std::strtoul(argv[2], nullptr, 10));
    else if (mode == "chains" && argc == 4) {
        chains(std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10));
        return 0;
    } else return 2;
    say("wrong", is_wrong());
    return 0;
}
