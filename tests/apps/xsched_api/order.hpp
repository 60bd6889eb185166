// What waits for a queue that the program has suspended, and what does not.

#ifndef ORDER_HPP
#define ORDER_HPP

#include "tasks.hpp"

namespace order_test {

// Launches a kernel of a queue when it is its turn, and notes that.
struct Note {
    Queue &queue;
    std::atomic<unsigned> calls{0};
};

inline XResult launch_and_note(HwQueueHandle, void *data) {
    Note &note = *static_cast<Note *>(data);
    note.queue.launch(50);
    note.calls++;
    return kXSchedSuccess;
}

inline void submit(Note &note) {
    HwCommandHandle command;
    OK(HwCommandCreateCallback(&command, launch_and_note, &note));
    OK(XQueueSubmit(note.queue.xq, command));
}

// Long enough for a thread to do what it should not.
inline void a_while() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

inline unsigned long long number_of(const Queue &queue) {
    unsigned long long found[2];
    CHECK(hipMemcpy(found, queue.state, sizeof found, hipMemcpyDeviceToHost));
    return found[0];
}

// Commands and plain launches of a stream stay in the program's order.
inline unsigned long long mixed() {
    unsigned long long wrong = 0;
    Queue queue;
    queue.create();
    Note note{queue};
    unsigned long long *copies;
    CHECK(hipHostMalloc(reinterpret_cast<void **>(&copies), 50 * sizeof *copies, 0));
    OK(XQueueSuspend(queue.xq, kQueueSuspendFlagNone));
    for (unsigned number = 0; number < 50; number++) {
        submit(note);
        // The commands before number their kernels when they run: a copy that came too early would find another number.
        unsigned long long &seen = copies[number];
        CHECK(hipMemcpyAsync(&seen, queue.state, sizeof seen, hipMemcpyDeviceToHost, queue.stream));
        if (number == 25) {
            a_while();
            OK(XQueueResume(queue.xq, kQueueResumeFlagNone));
        }
    }
    OK(XQueueWaitAll(queue.xq));
    for (unsigned number = 0; number < 50; number++) wrong += copies[number] != number + 1;
    return wrong + (note.calls != 50) + queue.wrong();
}

inline XResult count(HwQueueHandle, void *data) {
    ++*static_cast<std::atomic<unsigned> *>(data);
    return kXSchedSuccess;
}

inline XResult submit_count(const Queue &queue, std::atomic<unsigned> &calls) {
    HwCommandHandle command;
    OK(HwCommandCreateCallback(&command, count, &calls));
    XResult result = XQueueSubmit(queue.xq, command);
    if (result != kXSchedSuccess) OK(HwCommandDestroy(command));
    return result;
}

// The only thread of a program suspends a queue: nothing that it does then waits for its own XQueueResume.
inline unsigned long long alone() {
    constexpr unsigned MOST = 4096;
    unsigned long long wrong = 0;
    Queue queue;
    queue.create();
    std::atomic<unsigned> calls{0};
    OK(XQueueSuspend(queue.xq, kQueueSuspendFlagNone));
    unsigned taken = 0;
    while (taken < 2 * MOST && submit_count(queue, calls) == kXSchedSuccess) taken++;
    wrong += taken != MOST || calls != 0;
    EXPECT(kXSchedErrorNotAllowed, submit_count(queue, calls));
    // A call of HIP is not refused: the oldest commands go.
    unsigned long long *copy;
    CHECK(hipHostMalloc(reinterpret_cast<void **>(&copy), sizeof *copy, 0));
    CHECK(hipMemcpyAsync(copy, queue.state, sizeof *copy, hipMemcpyDeviceToHost, queue.stream));
    wrong += calls >= MOST / 2;
    // A copy that cannot be kept goes behind all.
    unsigned long long found[2];
    CHECK(hipMemcpyAsync(found, queue.state, sizeof found, hipMemcpyDeviceToHost, queue.stream));
    wrong += calls != MOST;
    OK(submit_count(queue, calls));
    a_while();
    wrong += calls != MOST;
    OK(XQueueWaitAll(queue.xq));
    wrong += calls != MOST + 1;
    OK(submit_count(queue, calls));
    a_while();
    wrong += calls != MOST + 1;
    OK(XQueueResume(queue.xq, kQueueResumeFlagNone));
    OK(XQueueWaitAll(queue.xq));
    return wrong + (calls != MOST + 2) + queue.wrong();
}

inline unsigned long long run() {
    alarm(60);
    unsigned long long wrong = 0;
    Queue first, second;
    first.create();
    second.create();

    // A suspended queue launches nothing, and a thread that waits for its stream waits until it is resumed.
    OK(XQueueSuspend(first.xq, kQueueSuspendFlagSyncHwQueue));
    std::atomic<bool> is_done{false};
    std::thread user([&] {
        for (unsigned number = 0; number < 10; number++) first.launch(50);
        CHECK(hipStreamSynchronize(first.stream));
        is_done = true;
    });
    a_while();
    wrong += is_done;
    XQueueState state = kQueueStateUnknown;
    OK(XQueueQuery(first.xq, &state));
    wrong += state != kQueueStateReady;
    OK(XQueueResume(first.xq, kQueueResumeFlagNone));
    user.join();
    OK(XQueueQuery(first.xq, &state));
    wrong += state != kQueueStateIdle;

    // What another stream needs of it is launched: by an event, by the null stream's rules, and by a wait for the device.
    hipEvent_t event;
    CHECK(hipEventCreate(&event));
    auto suspended = [&](const std::function<void()> &from_another_thread) {
        OK(XQueueSuspend(first.xq, kQueueSuspendFlagNone));
        std::thread other([&] {
            for (unsigned number = 0; number < 10; number++) first.launch(50);
            CHECK(hipEventRecord(event, first.stream));
        });
        other.join();
        from_another_thread();
        wrong += number_of(first) != first.launched;
        OK(XQueueResume(first.xq, kQueueResumeFlagNone));
    };
    suspended([&] {
        CHECK(hipStreamWaitEvent(second.stream, event, 0));
        second.launch(50);
        CHECK(hipStreamSynchronize(second.stream));
    });
    suspended([&] { number_of(second); });
    suspended([&] { CHECK(hipDeviceSynchronize()); });
    suspended([&] {
        void *memory;
        CHECK(hipMalloc(&memory, 64));
        CHECK(hipFree(memory));
    });

    // Commands that such a queue keeps are nothing that others wait for: the program has made no call yet.
    Note note{first};
    OK(XQueueSuspend(first.xq, kQueueSuspendFlagNone));
    for (unsigned number = 0; number < 10; number++) submit(note);
    number_of(second);
    CHECK(hipDeviceSynchronize());
    wrong += note.calls;
    // Unless a call comes after them that others wait for.
    CHECK(hipEventRecord(event, first.stream));
    CHECK(hipDeviceSynchronize());
    wrong += note.calls != 10;
    OK(XQueueResume(first.xq, kQueueResumeFlagNone));

    // A queue that is suspended ends like any other.
    OK(XQueueSuspend(second.xq, kQueueSuspendFlagNone));
    Note last{second};
    submit(last);
    OK(XQueueDestroy(second.xq));
    wrong += last.calls != 1;
    second.create();
    OK(XQueueSuspend(second.xq, kQueueSuspendFlagNone));
    submit(last);
    wrong += last.calls != 1;
    CHECK(hipStreamDestroy(second.stream));
    wrong += last.calls != 2;
    EXPECT(kXSchedErrorNotFound, XQueueWaitAll(second.xq));

    return wrong + mixed() + alone() + first.wrong();
}

} // namespace order_test

#endif
