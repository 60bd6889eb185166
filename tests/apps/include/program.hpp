// The common part of the test programs: their options, threads and last line.
//
//     --launches N      make exactly N launches in all (default 300)
//     --seconds S       launch until S seconds are over or SIGTERM comes instead; prints `ready <pid>` before the first launch
//     --interval-us U   each thread waits U microseconds after each launch
//     --threads T       share the launches among T threads (default 1)

#ifndef PROGRAM_HPP
#define PROGRAM_HPP

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <unistd.h>
#include <vector>

#include "hip_subset.h"

// A failed HIP call ends the program, because later results are unreliable.
inline void check(hipError_t error, const char *what) {
    if (error != hipSuccess) {
        std::fprintf(stderr, "%s: %s (%d)\n", what, hipGetErrorName(error), static_cast<int>(error));
        std::exit(1);
    }
}

#define CHECK(call) check((call), #call)

struct Options {
    unsigned long launches = 300;
    double seconds = 0;
    unsigned interval_us = 0;
    unsigned threads = 1;

    static Options parse(int argc, char **argv) {
        Options options;
        for (int i = 1; i < argc; i += 2) {
            const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
            if (!value || !options.set(argv[i], value)) {
                std::fprintf(stderr, "usage: %s [--launches N | --seconds S] [--interval-us U] [--threads T]\n",
                             argv[0]);
                std::exit(2);
            }
        }
        return options;
    }

  private:
    bool set(const char *name, const char *value) {
        char *end = nullptr;
        if (!std::strcmp(name, "--launches")) launches = std::strtoul(value, &end, 10);
        else if (!std::strcmp(name, "--seconds")) seconds = std::strtod(value, &end);
        else if (!std::strcmp(name, "--interval-us")) interval_us = std::strtoul(value, &end, 10);
        else if (!std::strcmp(name, "--threads")) threads = std::strtoul(value, &end, 10);
        return end && end != value && !*end && threads > 0;
    }
};

// Whether the program must end. It still checks its results.
inline volatile std::sig_atomic_t has_to_end = 0;

// Distributes launch numbers among threads. By count, thread t of T gets t, t+T, t+2T, .. below N; by time,
// without end.
class Launches {
  public:
    Launches(const Options &options, unsigned thread)
        : options(options), next(thread), deadline(std::chrono::steady_clock::now() + duration(options)) {}

    // The next launch's number, or false when this thread is done.
    bool take(unsigned long &number) {
        if (done_before) pause();
        done_before = true;
        bool more = options.seconds > 0 ? !has_to_end && std::chrono::steady_clock::now() < deadline
                                        : next < options.launches;
        number = next;
        next += options.threads;
        return more;
    }

  private:
    static std::chrono::nanoseconds duration(const Options &options) {
        return std::chrono::nanoseconds(static_cast<long long>(options.seconds * 1e9));
    }

    void pause() const {
        if (options.interval_us) std::this_thread::sleep_for(std::chrono::microseconds(options.interval_us));
    }

    const Options &options;
    unsigned long next;
    std::chrono::steady_clock::time_point deadline;
    bool done_before = false;
};

// Results of a thread.
struct Outcome {
    // Launches by path; programs with one path use the first.
    unsigned long launches[3] = {};
    // Hash of the final memory contents.
    std::uint64_t checksum = 0;
    bool ok = true;

    void add(const Outcome &other) {
        for (int way = 0; way < 3; way++) launches[way] += other.launches[way];
        checksum += other.checksum;
        ok = ok && other.ok;
    }
};

// FNV-1a.
inline std::uint64_t hash(const std::vector<unsigned> &words) {
    std::uint64_t value = 0xcbf29ce484222325;
    for (unsigned word : words) value = (value ^ word) * 0x100000001b3;
    return value;
}

// Runs the body on each thread and sums the results.
inline Outcome run_threads(const Options &options, const std::function<Outcome(Launches &, unsigned)> &body) {
    if (options.seconds > 0) {
        std::signal(SIGTERM, [](int) { has_to_end = 1; });
        std::printf("ready %d\n", static_cast<int>(getpid()));
        std::fflush(stdout);
    }
    std::vector<Outcome> outcomes(options.threads);
    std::vector<std::thread> threads;
    auto run = [&](unsigned thread) {
        Launches launches(options, thread);
        outcomes[thread] = body(launches, thread);
    };
    for (unsigned thread = 1; thread < options.threads; thread++) threads.emplace_back(run, thread);
    // The main thread takes the first share, so that a program with one thread has only one.
    run(0);
    for (std::thread &thread : threads) thread.join();
    Outcome total;
    for (const Outcome &outcome : outcomes) total.add(outcome);
    return total;
}

#endif
