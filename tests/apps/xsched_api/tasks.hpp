// Tasks: some kernels in a stream, then a pause, over and over; and how they are checked.

#ifndef TASKS_HPP
#define TASKS_HPP

#include <random>

#include "device_step.hpp"
#include "xsched/hip/hal.h"
#include "xsched/xsched.h"

// Kernels of a task, and microseconds of each: the simulator takes them for their duration.
constexpr unsigned KERNELS = 20, KERNEL_US = 300;
// Tasks of the urgent stream. The other has no pauses until these are over.
constexpr unsigned TASKS = 12;

inline void expect(XResult found, XResult wanted, const char *what) {
    if (found == wanted) return;
    std::fprintf(stderr, "%s: %d instead of %d\n", what, static_cast<int>(found), static_cast<int>(wanted));
    std::exit(1);
}

#define EXPECT(wanted, call) expect((call), (wanted), #call)
#define OK(call) EXPECT(kXSchedSuccess, call)

// A stream whose work is ordered with the null stream's, as hipStreamCreate makes it, and its queue.
class Queue {
  public:
    Queue() {
        CHECK(hipStreamCreateWithFlags(&stream, 0));
        CHECK(hipMalloc(reinterpret_cast<void **>(&state), 2 * sizeof *state));
        CHECK(hipMemset(state, 0, 2 * sizeof *state));
    }

    void create(XPreemptLevel level = kPreemptLevelBlock) {
        OK(HipQueueCreate(&hwq, stream));
        OK(XQueueCreate(&xq, hwq, level, kQueueCreateFlagNone));
        OK(XQueueSetLaunchConfig(xq, 2, 1));
    }

    void launch(unsigned us = KERNEL_US) {
        device_step<<<1, 64, 0, stream>>>(state, us, launched++);
        CHECK(hipGetLastError());
    }

    void task() {
        for (unsigned kernel = 0; kernel < KERNELS; kernel++) launch();
        CHECK(hipStreamSynchronize(stream));
    }

    // Kernels that did not arrive once and in order.
    unsigned long long wrong() {
        unsigned long long found[2];
        CHECK(hipStreamSynchronize(stream));
        CHECK(hipMemcpy(found, state, sizeof found, hipMemcpyDeviceToHost));
        return found[1] + (found[0] != launched);
    }

    hipStream_t stream = nullptr;
    HwQueueHandle hwq = 0;
    XQueueHandle xq = 0;
    unsigned long long *state = nullptr;
    unsigned long long launched = 0;
};

// The urgent one's tasks, with pauses of random length.
inline void do_tasks(const std::function<void()> &task) {
    std::mt19937 random(1);
    for (unsigned number = 0; number < TASKS; number++) {
        task();
        std::this_thread::sleep_for(std::chrono::microseconds(3000 + random() % 2000));
    }
}

#endif
