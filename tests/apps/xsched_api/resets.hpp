// What is left of queues when their device is reset: nothing. Those of another device go on.

#ifndef RESETS_HPP
#define RESETS_HPP

#include "codes.hpp"
#include "order.hpp"

namespace resets_test {

inline unsigned long long run() {
    alarm(60);
    unsigned long long wrong = 0;
    CHECK(hipSetDevice(1));
    Queue elsewhere;
    elsewhere.create();
    CHECK(hipSetDevice(0));

    Queue queue;
    queue.create();
    HwQueueHandle null_hwq;
    XQueueHandle null_xq;
    OK(HipQueueCreate(&null_hwq, nullptr));
    OK(XQueueCreate(&null_xq, null_hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    for (unsigned number = 0; number < 7; number++) queue.launch(10);
    // What a suspended queue keeps goes before the reset, as before the end of the stream.
    std::atomic<unsigned> calls{0};
    OK(XQueueSuspend(queue.xq, kQueueSuspendFlagNone));
    OK(XQueueSuspend(null_xq, kQueueSuspendFlagNone));
    OK(order_test::submit_count(queue, calls));
    CHECK(hipDeviceReset());
    wrong += calls != 1;
    for (uint64_t gone : {queue.xq, queue.hwq, null_xq, null_hwq}) codes_test::no_such_object(gone);

    // A stream that is made now, perhaps with the same handle, begins anew.
    Queue next;
    next.create();
    wrong += next.xq == queue.xq || next.hwq == queue.hwq;
    for (unsigned number = 0; number < 3; number++) next.launch(10);
    int64_t count = 0;
    OK(XQueueProfileHwCommandCount(next.xq, &count));
    wrong += count != 3;
    OK(XQueueWaitAll(next.xq));
    OK(HipQueueCreate(&null_hwq, nullptr));
    OK(XQueueCreate(&null_xq, null_hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    OK(order_test::submit_count(next, calls));
    OK(XQueueWaitAll(next.xq));
    wrong += calls != 2;

    CHECK(hipSetDevice(1));
    elsewhere.launch(10);
    OK(order_test::submit_count(elsewhere, calls));
    OK(XQueueWaitAll(elsewhere.xq));
    OK(XQueueProfileHwCommandCount(elsewhere.xq, &count));
    wrong += calls != 3 || count != 2;
    wrong += elsewhere.wrong();
    CHECK(hipSetDevice(0));
    return wrong + next.wrong();
}

} // namespace resets_test

#endif
