// Several threads use a few handles at random: good ones, stale ones, and numbers that were never handles. Every answer is one that the
// function may give, every command that was taken runs once, and nothing waits for ever.

#ifndef HANDLES_HPP
#define HANDLES_HPP

#include <array>
#include <sys/wait.h>

#include "tasks.hpp"

namespace handles_test {

constexpr unsigned THREADS = 4, ROUNDS = 2000, STREAMS = 3, PLACES = 6;

inline hipStream_t streams[STREAMS];
inline std::array<std::atomic<uint64_t>, PLACES> queues, hw_queues, commands;
inline std::atomic<unsigned long> accepted, called, odd;

inline XResult count(HwQueueHandle, void *) {
    called++;
    return kXSchedSuccess;
}

class Random {
  public:
    explicit Random(unsigned long seed) : engine(seed) {}
    unsigned below(unsigned limit) { return static_cast<unsigned>(engine() % limit); }
    // Mostly one of these.
    uint64_t of(std::array<std::atomic<uint64_t>, PLACES> &places) {
        return below(16) ? places[below(PLACES)].load() : engine();
    }

  private:
    std::mt19937_64 engine;
};

inline void one(Random &random) {
    uint64_t xq = random.of(queues), hwq = random.of(hw_queues), command = random.of(commands), made = 0;
    XQueueState state;
    int64_t number;
    XResult result = kXSchedSuccess;
    switch (random.below(20)) {
    case 0: result = HipQueueCreate(&made, streams[random.below(STREAMS)]); break;
    case 1: result = XQueueCreate(&made, hwq, 1 + random.below(3), 0); break;
    case 2: result = XQueueDestroy(xq); break;
    case 3: result = HwQueueDestroy(hwq); break;
    case 4: result = XQueueSuspend(xq, random.below(2)); break;
    case 5: result = XQueueResume(xq, random.below(2)); break;
    case 6: result = XQueueWaitAll(xq); break;
    case 7: result = XQueueWait(xq, command); break;
    case 8: result = XQueueQuery(xq, &state); break;
    case 9: result = XQueueProfileHwCommandCount(xq, &number); break;
    case 10: result = XHintPriority(xq, static_cast<int>(random.below(4))); break;
    case 11: result = XQueueSetLaunchConfig(xq, 1 + random.below(8), 0); break;
    case 12: result = HwQueueSynchronize(hwq); break;
    case 13: result = HwCommandDestroy(command); break;
    case 14:
        result = HwQueueLaunch(hwq, command);
        accepted += result == kXSchedSuccess;
        break;
    case 15: result = XQueueGet(&made, hwq); break;
    case 16: result = XQueueSetPreemptLevel(xq, static_cast<XPreemptLevel>(1 + random.below(3))); break;
    default:
        result = HwCommandCreateCallback(&made, count, nullptr);
        commands[random.below(PLACES)] = made;
        made = 0;
        if (XQueueSubmit(xq, commands[random.below(PLACES)]) == kXSchedSuccess) accepted++;
    }
    if (made) (random.below(2) ? hw_queues : queues)[random.below(PLACES)] = made;
    odd += result != kXSchedSuccess && result != kXSchedErrorNotFound && result != kXSchedErrorNotAllowed;
}

// A child has none of its parent's objects, and can make its own.
inline bool child_is_separate() {
    pid_t child = fork();
    if (child == 0) {
        for (auto &queue : queues)
            if (XQueueResume(queue, 0) != kXSchedErrorNotFound) _exit(1);
        HwCommandHandle own;
        _exit(HwCommandCreateCallback(&own, count, nullptr) != kXSchedSuccess || HwCommandDestroy(own) != kXSchedSuccess);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}


inline unsigned long long run(unsigned long seed) {
    alarm(120);
    for (hipStream_t &stream : streams) CHECK(hipStreamCreateWithFlags(&stream, 0));
    for (unsigned stream = 0; stream < STREAMS; stream++) {
        uint64_t hwq, xq;
        OK(HipQueueCreate(&hwq, streams[stream]));
        OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, 0));
        hw_queues[stream] = hwq;
        queues[stream] = xq;
    }
    std::atomic<bool> is_over{false};
    // A queue may be suspended when a thread waits for it: another one resumes all that it knows.
    std::thread resumes([&] {
        while (!is_over) {
            for (auto &queue : queues) XQueueResume(queue, 0);
            for (auto &hw_queue : hw_queues) {
                uint64_t xq = 0;
                if (XQueueGet(&xq, hw_queue) == kXSchedSuccess) XQueueResume(xq, 0);
            }
            // A queue whose handle no place has any more.
            for (hipStream_t stream : streams) {
                uint64_t hwq = 0, xq = 0;
                if (HipQueueCreate(&hwq, stream) == kXSchedSuccess && XQueueGet(&xq, hwq) == kXSchedSuccess)
                    XQueueResume(xq, 0);
            }
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    });
    std::thread threads[THREADS];
    for (unsigned thread = 0; thread < THREADS; thread++)
        threads[thread] = std::thread([=] {
            Random random(seed * THREADS + thread);
            for (unsigned round = 0; round < ROUNDS; round++) one(random);
        });
    for (auto &thread : threads) thread.join();
    is_over = true;
    resumes.join();
    unsigned long long wrong = !child_is_separate();
    // A stream that goes takes its queue along, also one that is suspended.
    for (hipStream_t stream : streams) CHECK(hipStreamDestroy(stream));
    for (auto &queue : queues) wrong += XQueueResume(queue, 0) != kXSchedErrorNotFound;
    if (wrong || odd || accepted != called)
        std::fprintf(stderr, "wrong %llu, odd answers %lu, taken %lu, called %lu\n", wrong, odd.load(), accepted.load(), called.load());
    return wrong + odd + (accepted != called);
}

} // namespace handles_test

#endif
