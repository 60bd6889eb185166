// A program over libraries with the names of AMD's. Prints its actions as lines `name value`, each when it is
// done. The last line is `wrong 0`, unless a result is wrong.
//
//     callers create           creates a handle of librocblas.so.4, uses and destroys it
//     callers find             lets libMIOpen.so.1 search for the fastest kernel, after a launch of its own
//     callers default-stream   launches on the null stream itself
//     callers meet FILE RANK RANKS   calls librccl.so.1 once; FILE is mapped by all ranks
//     callers domain SPEAKER DOMAIN  launches after SPEAKER (`library`, `thread`) has declared its domain
//     callers steps N          launches alternately itself and through librocblas.so.4, N in all
//     callers graph            launches a graph itself and one through librocblas.so.4, then waits for a line
//     callers chains N SEED    N launches by libcallers_bottom.so, each through seven libraries of `tests/apps/origin_chain`
//     callers verdicts N SEED  the same, the first through each chain in turn; checks the verdict on each
//
// Before it begins it prints `ready`, fills memory every other millisecond until it reads a line, prints
// `warm` and waits for another line.

#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>

#include "callers.h"
#include "chains.hpp"
#include "program.hpp"
#include "verdict_page.hpp"
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

// 1 if the memory is not the result of all steps in order.
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

void domain(const char *speaker, int which) {
    bool is_library = !std::strcmp(speaker, "library");
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

void graph() {
    hipStream_t capturing = nullptr;
    hipGraph_t graph = nullptr;
    hipGraphExec_t made = nullptr;
    CHECK(hipStreamCreateWithFlags(&capturing, hipStreamNonBlocking));
    CHECK(hipStreamBeginCapture(capturing, hipStreamCaptureModeThreadLocal));
    own_step(3, capturing);
    CHECK(hipStreamEndCapture(capturing, &graph));
    CHECK(hipGraphInstantiate(&made, graph, nullptr, nullptr, 0));
    CHECK(hipGraphLaunch(made, stream));
    require(rocblas_sgraph(y, 7, stream), "rocblas_sgraph");
    expected = callers_step_of(expected, 7);
    say("launched", 2);
    take_a_line();
}

// 1 if not every launch has added one.
int is_sum_wrong(unsigned long launches) {
    CHECK(hipMemcpyAsync(pinned, y, BYTES, hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    return pinned[0] != unsigned(launches);
}

void chains(unsigned long count, unsigned long seed) {
    Chains chains(y, stream, seed);
    long made[3] = {};
    for (unsigned long number = 0; number < count; number++) {
        const Chains::Chain &chain = chains.draw();
        chain.go();
        made[chain.way] += 1;
        if (number % 512 == 511) CHECK(hipStreamSynchronize(stream));
    }
    say("to_schedule", made[SCHEDULE]);
    say("to_pass", made[PASS]);
    say("to_keep", made[KEEP]);
    say("wrong", is_sum_wrong(count));
}

// The verdict by the library at the return address.
Way way_of_library(const void *address) {
    Dl_info found = {};
    if (!dladdr(address, &found)) return SCHEDULE;
    if (std::strstr(found.dli_fname, "librccl.so")) return KEEP;
    return std::strstr(found.dli_fname, "libMIOpen.so") ? PASS : SCHEDULE;
}

// Verdicts on launches, and the expected ones.
struct Judged {
    long made[3] = {}, right = 0, right_by_library = 0, late = 0;

    void note(Way way, const VerdictPage::Answer &answer, Way by_library) {
        // Indices are those of `Action` in xsched-ebpf/src/verdict.rs.
        constexpr unsigned ACTIONS[] = {1, 2, 3};
        made[way] += 1;
        right += answer.is_new && !answer.is_pending && answer.action == ACTIONS[way];
        right_by_library += by_library == way;
    }
};

// Launches until there is a verdict on the chain, which may take longer than a launch waits. A chain without
// a verdict in time is treated as an unknown one.
void launch_and_look(const Chains &chains, const Chains::Chain &chain, VerdictPage &page, Judged &judged) {
    constexpr unsigned TRIES = 10000;
    chain.go();
    VerdictPage::Answer answer = page.look();
    for (unsigned tries = 0; answer.is_pending && tries < TRIES; tries++) {
        judged.late += 1;
        chain.go();
        answer = page.look();
    }
    judged.note(chain.way, answer, way_of_library(chains.bottom));
}

void verdicts(unsigned long count, unsigned long seed) {
    Chains chains(y, stream, seed);
    VerdictPage page;
    Judged judged;
    unsigned long number = 0;
    for (const Chains::Chain &chain : chains.all) {
        launch_and_look(chains, chain, page, judged);
        number += 1;
    }
    CHECK(hipStreamSynchronize(stream));
    say("known", long(number));
    for (; number < count; number++) {
        launch_and_look(chains, chains.draw(), page, judged);
        if (number % 512 == 511) CHECK(hipStreamSynchronize(stream));
    }
    say("to_schedule", judged.made[SCHEDULE]);
    say("to_pass", judged.made[PASS]);
    say("to_keep", judged.made[KEEP]);
    say("right", judged.right);
    say("right_by_library", judged.right_by_library);
    say("late", judged.late);
    say("wrong", is_sum_wrong(number + (unsigned long)judged.late));
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
    else if (mode == "graph") graph();
    else if (mode == "steps" && argc == 3) steps(std::strtoul(argv[2], nullptr, 10));
    else if ((mode == "chains" || mode == "verdicts") && argc == 4) {
        auto run = mode == "chains" ? chains : verdicts;
        run(std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10));
        return 0;
    } else return 2;
    say("wrong", is_wrong());
    return 0;
}
