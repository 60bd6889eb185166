// Puts load on the device and prints the results. Tests and benchmarks of the simulated device run it, often
// several at once.
//
//     device_load load   [--launches N] [--threads T] [--blocks B] [--us U] [--lds KIB]   each thread on a stream of its own
//     device_load single [--launches N] [--blocks B] [--us U]                 waits for each launch
//     device_load priorities [--launches N] [--burst B] [--threads T] [--us U] on T streams of three priorities in turn, after a stream
//                                                                             of the highest one has come and gone; waits after B
//     device_load idle   [--threads T]                                        T idle streams
//     device_load gate   [--launches N] [--us U]                              waits for a word, which the host writes after U
//     device_load gated  [--launches N] [--blocks B] [--us U]                 each kernel behind an open gate in signal memory
//     device_load registered [--launches N] [--blocks B] [--us U]             the same in memory that the program registers
//     device_load overlap [--us U]                                            copies both ways beside a kernel
//     device_load fault  [--launches 0..2]                                    accesses memory out of bounds
//
// Every mode prints `ready` and begins after a line, or the end, of standard input. Then it prints `name
// value` lines. Kernels check the launch order, so a launch that is lost, repeated or reordered counts as
// `wrong`.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "device_step.hpp"

// Writes words, inside or outside of an allocation.
extern "C" __global__ void device_poke(unsigned *words, unsigned offset, unsigned count) {
    if (global_thread_x()) return;
    for (unsigned i = 0; i < count; i++) words[offset + i] = i;
}

using Clock = std::chrono::steady_clock;

struct Load {
    unsigned long launches = 1000, burst = 6;
    unsigned threads = 1, blocks = 1, us = 100, lds_kib = 0;

    Load(int argc, char **argv) {
        for (int i = 2; i + 1 < argc; i += 2) {
            unsigned long value = std::strtoul(argv[i + 1], nullptr, 10);
            if (!std::strcmp(argv[i], "--launches")) launches = value;
            if (!std::strcmp(argv[i], "--burst")) burst = value;
            if (!std::strcmp(argv[i], "--threads")) threads = static_cast<unsigned>(value);
            if (!std::strcmp(argv[i], "--blocks")) blocks = static_cast<unsigned>(value);
            if (!std::strcmp(argv[i], "--us")) us = static_cast<unsigned>(value);
            if (!std::strcmp(argv[i], "--lds")) lds_kib = static_cast<unsigned>(value);
        }
    }
};

static double us_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

static double cpu_us() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    auto us = [](const timeval &time) { return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec); };
    return us(usage.ru_utime) + us(usage.ru_stime);
}

static unsigned long resident_kb() {
    std::ifstream statm("/proc/self/statm");
    unsigned long size = 0, resident = 0;
    statm >> size >> resident;
    return resident * static_cast<unsigned long>(sysconf(_SC_PAGESIZE)) / 1024;
}

static void wait_for_start() {
    std::printf("ready\n");
    std::fflush(stdout);
    std::getchar();
}

static int load(const Load &load) {
    std::vector<Stream> streams(load.threads);
    wait_for_start();
    Clock::time_point begin = Clock::now();
    double cpu_before_us = cpu_us();
    std::vector<std::thread> threads;
    // When as much is in flight as ever will be, memory must not grow any more.
    unsigned long quarter_kb = 0;
    for (Stream &stream : streams)
        threads.emplace_back([&] {
            for (unsigned long number = 0; number < load.launches; number++) {
                stream.launch(load.blocks, load.us, load.lds_kib * 1024);
                if (&stream == &streams[0] && number == load.launches / 4) quarter_kb = resident_kb();
            }
            stream.wait();
        });
    for (std::thread &thread : threads) thread.join();
    double total_us = us_since(begin), all_cpu_us = cpu_us() - cpu_before_us;
    unsigned long long wrong = 0;
    for (Stream &stream : streams) wrong += stream.wrong();
    std::printf("total_us %.1f\ncpu_us %.1f\nwrong %llu\nquarter_kb %lu\nend_kb %lu\n", total_us, all_cpu_us, wrong, quarter_kb, resident_kb());
    return wrong != 0;
}

static int single(const Load &load) {
    Stream stream;
    std::vector<double> latencies_us;
    wait_for_start();
    Clock::time_point begin = Clock::now();
    for (unsigned long number = 0; number < load.launches; number++) {
        Clock::time_point launched = Clock::now();
        stream.launch(load.blocks, load.us);
        stream.wait();
        latencies_us.push_back(us_since(launched));
    }
    double total_us = us_since(begin);
    std::sort(latencies_us.begin(), latencies_us.end());
    unsigned long long wrong = stream.wrong();
    std::printf("p50_us %.1f\np99_us %.1f\ntotal_us %.1f\nwrong %llu\n", latencies_us[latencies_us.size() / 2],
                latencies_us[latencies_us.size() * 99 / 100], total_us, wrong);
    return wrong != 0;
}

static int priorities(const Load &load) {
    const int each[] = {0, -1, 1};
    Stream passing(&each[1]);
    CHECK(hipStreamDestroy(passing.handle));
    std::vector<Stream> streams;
    for (unsigned number = 0; number < load.threads; number++) streams.emplace_back(&each[number % 3]);
    wait_for_start();
    for (unsigned long number = 0; number < load.launches; number++) {
        streams[number % load.threads].launch(load.blocks, load.us);
        if ((number + 1) % load.burst == 0) CHECK(hipDeviceSynchronize());
    }
    CHECK(hipDeviceSynchronize());
    unsigned long long wrong = 0;
    for (Stream &stream : streams) wrong += stream.wrong();
    std::printf("wrong %llu\n", wrong);
    return wrong != 0;
}

static int idle(const Load &load) {
    std::vector<Stream> streams(load.threads);
    for (Stream &stream : streams) stream.launch(load.blocks, load.us);
    CHECK(hipDeviceSynchronize());
    wait_for_start();
    double before_us = cpu_us();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::printf("cpu_us %.1f\n", cpu_us() - before_us);
    return 0;
}

// From the host's write to the stream's next step, which is a write that the host sees.
static int gate(const Load &load) {
    Stream stream;
    unsigned long *words[2];
    for (unsigned long *&word : words) {
        CHECK(hipExtMallocWithFlags(reinterpret_cast<void **>(&word), sizeof *word, hipMallocSignalMemory));
        __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    }
    std::vector<double> latencies_us;
    wait_for_start();
    double waited_us = 0;
    for (unsigned long number = 1; number <= load.launches; number++) {
        CHECK(hipStreamWaitValue64(stream.handle, words[0], number, hipStreamWaitValueGte, ~0ul));
        CHECK(hipStreamWriteValue64(stream.handle, words[1], number, 0));
        double cpu_before_us = cpu_us();
        std::this_thread::sleep_for(std::chrono::microseconds(load.us));
        waited_us += cpu_us() - cpu_before_us;
        Clock::time_point written = Clock::now();
        __atomic_store_n(words[0], number, __ATOMIC_RELEASE);
        while (__atomic_load_n(words[1], __ATOMIC_ACQUIRE) != number) sched_yield();
        latencies_us.push_back(us_since(written));
    }
    std::sort(latencies_us.begin(), latencies_us.end());
    std::printf("p50_us %.1f\np99_us %.1f\ncpu_us %.1f\n", latencies_us[latencies_us.size() / 2],
                latencies_us[latencies_us.size() * 99 / 100], waited_us / static_cast<double>(load.launches));
    return 0;
}

// Memory that no other process has mapped, and that others could map only if they were given the file.
static unsigned long *registered_words() {
    constexpr size_t SIZE = 4096;
    int file = memfd_create("gates", 0);
    if (file < 0 || ftruncate(file, SIZE)) std::abort();
    void *words = mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), *seen;
    if (words == MAP_FAILED) std::abort();
    CHECK(hipHostRegister(words, SIZE, hipHostRegisterMapped));
    CHECK(hipHostGetDevicePointer(&seen, words, 0));
    return static_cast<unsigned long *>(seen);
}

static int gated(const Load &load, bool is_registered) {
    Stream stream;
    unsigned long *hold, *word;
    if (is_registered) word = (hold = registered_words()) + 1;
    else for (unsigned long **signal : {&hold, &word})
        CHECK(hipExtMallocWithFlags(reinterpret_cast<void **>(signal), sizeof **signal, hipMallocSignalMemory));
    __atomic_store_n(hold, 0, __ATOMIC_RELEASE);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    wait_for_start();
    // All commands are submitted before the first kernel begins.
    CHECK(hipStreamWaitValue64(stream.handle, hold, 1, hipStreamWaitValueGte, ~0ul));
    double cpu_before_us = cpu_us();
    Clock::time_point begin = Clock::now();
    for (unsigned long number = 0; number < load.launches; number++) {
        CHECK(hipStreamWaitValue64(stream.handle, word, 1, hipStreamWaitValueGte, ~0ul));
        stream.launch(load.blocks, load.us);
    }
    __atomic_store_n(hold, 1, __ATOMIC_RELEASE);
    stream.wait();
    std::printf("total_us %.1f\ncpu_us %.1f\nwrong %llu\n", us_since(begin), cpu_us() - cpu_before_us, stream.wrong());
    return 0;
}

static int overlap(const Load &load) {
    constexpr size_t SIZE = 64 << 10;
    Stream kernels, to, from;
    void *host[2], *device[2];
    for (void *&address : host) CHECK(hipHostMalloc(&address, SIZE, 0));
    for (void *&address : device) CHECK(hipMalloc(&address, SIZE));
    wait_for_start();
    auto timed = [&](bool has_kernel, bool has_to, bool has_from) {
        Clock::time_point begin = Clock::now();
        if (has_kernel) kernels.launch(load.blocks, load.us);
        for (int copy = 0; copy < 4; copy++) {
            if (has_to) CHECK(hipMemcpyAsync(device[0], host[0], SIZE, hipMemcpyHostToDevice, to.handle));
            if (has_from) CHECK(hipMemcpyAsync(host[1], device[1], SIZE, hipMemcpyDeviceToHost, from.handle));
        }
        CHECK(hipDeviceSynchronize());
        return us_since(begin);
    };
    timed(true, true, true); // the first access to all memory
    double kernel_us = timed(true, false, false), to_us = timed(false, true, false), from_us = timed(false, false, true);
    std::printf("kernel_us %.1f\nto_us %.1f\nfrom_us %.1f\ntogether_us %.1f\n", kernel_us, to_us, from_us,
                timed(true, true, true));
    return 0;
}

static int fault(const Load &load) {
    unsigned *words;
    constexpr unsigned COUNT = 1024;
    CHECK(hipMalloc(reinterpret_cast<void **>(&words), COUNT * sizeof *words));
    wait_for_start();
    device_poke<<<1, 64>>>(words, 0, COUNT);
    CHECK(hipDeviceSynchronize());
    if (load.launches == 1) CHECK(hipFree(words)); // after free
    if (load.launches == 2) device_poke<<<1, 64>>>(words, COUNT - 8, 16); // across the end
    else if (load.launches == 1) device_poke<<<1, 64>>>(words, 0, COUNT);
    std::printf("synchronize %d\n", hipDeviceSynchronize());
    std::printf("malloc %d\n", hipMalloc(reinterpret_cast<void **>(&words), 64));
    std::printf("last %s\n", hipGetErrorName(hipGetLastError()));
    return 0;
}

int main(int argc, char **argv) {
    std::string mode = argc > 1 ? argv[1] : "";
    Load options(argc, argv);
    if (mode == "load") return load(options);
    if (mode == "single") return single(options);
    if (mode == "priorities") return priorities(options);
    if (mode == "idle") return idle(options);
    if (mode == "gate") return gate(options);
    if (mode == "gated" || mode == "registered") return gated(options, mode == "registered");
    if (mode == "overlap") return overlap(options);
    if (mode == "fault") return fault(options);
    std::fprintf(stderr, "usage: %s load|single|priorities|gate|gated|registered|idle|overlap|fault [--launches N] [--threads T] [--blocks B] [--us U]\n", argv[0]);
    return 2;
}
