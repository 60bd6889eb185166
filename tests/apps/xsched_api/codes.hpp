// What each function answers.

#ifndef CODES_HPP
#define CODES_HPP

#include "tasks.hpp"

namespace codes_test {

inline XResult nothing(HwQueueHandle, void *) { return kXSchedSuccess; }

inline XResult fails(HwQueueHandle, void *) { return kXSchedErrorHardware; }

// What a command may do, and what it may not: it is given its queue.
inline XResult looks_around(HwQueueHandle hwq, void *data) {
    Queue &queue = *static_cast<Queue *>(data);
    if (hwq != queue.hwq) return kXSchedErrorUnknown;
    queue.launch(10);
    if (XQueueWaitAll(queue.xq) != kXSchedErrorNotAllowed) return kXSchedErrorUnknown;
    if (XQueueDestroy(queue.xq) != kXSchedErrorNotAllowed) return kXSchedErrorUnknown;
    if (HwQueueSynchronize(hwq) != kXSchedErrorNotAllowed) return kXSchedErrorUnknown;
    // Its own calls are launched by now, so these end.
    if (hipStreamSynchronize(queue.stream) != hipSuccess) return kXSchedErrorUnknown;
    if (hipDeviceSynchronize() != hipSuccess) return kXSchedErrorUnknown;
    if (hipStreamQuery(queue.stream) != hipSuccess) return kXSchedErrorUnknown;
    return kXSchedSuccess;
}

inline HwCommandHandle command(LaunchCallback launch, void *data = nullptr) {
    HwCommandHandle made = 0;
    OK(HwCommandCreateCallback(&made, launch, data));
    return made;
}

inline void no_such_object(uint64_t handle) {
    XQueueState state;
    int64_t count;
    XQueueHandle other;
    const XResult none = kXSchedErrorNotFound;
    EXPECT(none, XQueueCreate(&other, handle, kPreemptLevelBlock, 0));
    EXPECT(none, XQueueDestroy(handle));
    EXPECT(none, XQueueGet(&other, handle));
    EXPECT(none, XQueueSetPreemptLevel(handle, kPreemptLevelBlock));
    EXPECT(none, XQueueSetLaunchConfig(handle, 8, 4));
    EXPECT(none, XQueueSubmit(handle, 0));
    EXPECT(none, XQueueWait(handle, 0));
    EXPECT(none, XQueueWaitAll(handle));
    EXPECT(none, XQueueQuery(handle, &state));
    EXPECT(none, XQueueSuspend(handle, 0));
    EXPECT(none, XQueueResume(handle, 0));
    EXPECT(none, XQueueProfileHwCommandCount(handle, &count));
    EXPECT(none, HwQueueDestroy(handle));
    EXPECT(none, HwQueueLaunch(handle, 0));
    EXPECT(none, HwQueueSynchronize(handle));
    EXPECT(none, HwCommandDestroy(handle));
    EXPECT(none, XHintPriority(handle, 1));
    EXPECT(none, XHintUtilization(handle, 50));
    EXPECT(none, XHintLaxity(handle, 100, 0, 1));
    EXPECT(none, XHintDeadline(handle, 100));
}


inline unsigned long long run() {
    alarm(60);
    const XResult invalid = kXSchedErrorInvalidValue, refused = kXSchedErrorNotSupported;
    EXPECT(invalid, XHintSetScheduler(kSchedulerUnknown, kPolicyUnknown));
    EXPECT(invalid, XHintSetScheduler(kSchedulerLocal, kPolicyUnknown));
    EXPECT(refused, XHintSetScheduler(kSchedulerLocal, kPolicyActiveWindowFirst));
    EXPECT(refused, XHintSetScheduler(kSchedulerLocal, kPolicyStrictProcessUtilizationPartition));
    EXPECT(refused, XHintSetScheduler(kSchedulerLocal, kPolicyHeterogeneousHighestPriorityFirst));
    EXPECT(refused, XHintTimeslice(TIMESLICE_DEFAULT));
    for (XPolicyType policy : {kPolicyCPUHighestPriorityFirst, kPolicyUtilizationPartition, kPolicyLaxity,
                               kPolicyProcessUtilizationPartition, kPolicyCompletelyFairScheduler,
                               kPolicyMultiLevelFeedbackQueue, kPolicyKEarliestDeadlineFirst})
        OK(XHintSetScheduler(kSchedulerLocal, policy));
    OK(XHintTimeslice(TIMESLICE_DEFAULT));

    Queue queue;
    no_such_object(0);
    no_such_object(1);
    no_such_object(~0ull);
    EXPECT(invalid, HipQueueCreate(nullptr, queue.stream));
    EXPECT(refused, HipQueueCreate(&queue.hwq, reinterpret_cast<hipStream_t>(2)));
    EXPECT(invalid, HipQueueCreate(&queue.hwq, reinterpret_cast<hipStream_t>(0x1234560)));
    OK(HipQueueCreate(&queue.hwq, nullptr));
    OK(HipQueueCreate(&queue.hwq, queue.stream));
    HwQueueHandle again = 0;
    OK(HipQueueCreate(&again, queue.stream));
    unsigned long long wrong = again != queue.hwq;

    EXPECT(kXSchedErrorNotFound, XQueueGet(&queue.xq, queue.hwq));
    EXPECT(invalid, XQueueGet(nullptr, queue.hwq));
    EXPECT(invalid, XQueueCreate(nullptr, queue.hwq, kPreemptLevelBlock, 0));
    EXPECT(invalid, XQueueCreate(&queue.xq, queue.hwq, kPreemptLevelUnknown, 0));
    EXPECT(invalid, XQueueCreate(&queue.xq, queue.hwq, kPreemptLevelMax, 0));
    EXPECT(invalid, XQueueCreate(&queue.xq, queue.hwq, kPreemptLevelBlock, 1 << 20));
    EXPECT(refused, XQueueCreate(&queue.xq, queue.hwq, kPreemptLevelBlock, kQueueCreateFlagBlockingSubmit));
    OK(XQueueCreate(&queue.xq, queue.hwq, kPreemptLevelInterrupt, kQueueCreateFlagNone));
    XQueueHandle same = 0;
    OK(XQueueCreate(&same, queue.hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    wrong += same != queue.xq;
    OK(XQueueGet(&same, queue.hwq));
    wrong += same != queue.xq;
    // Each kind has handles of its own.
    no_such_object(command(nothing) + 1000);
    EXPECT(kXSchedErrorNotFound, XQueueWaitAll(queue.hwq));
    EXPECT(kXSchedErrorNotFound, HwQueueSynchronize(queue.xq));
    EXPECT(kXSchedErrorNotAllowed, HwQueueDestroy(queue.hwq));

    OK(XQueueSetPreemptLevel(queue.xq, kPreemptLevelDeactivate));
    EXPECT(invalid, XQueueSetPreemptLevel(queue.xq, kPreemptLevelMax));
    OK(XQueueSetLaunchConfig(queue.xq, 8, 4));
    OK(XQueueSetLaunchConfig(queue.xq, 0, -1));
    EXPECT(invalid, XQueueSetLaunchConfig(queue.xq, 2, 4));
    OK(XHintPriority(queue.xq, PRIORITY_MAX));
    EXPECT(invalid, XHintPriority(queue.xq, PRIORITY_MAX + 1));
    OK(XHintUtilization(queue.xq, UTILIZATION_MAX));
    EXPECT(invalid, XHintUtilization(queue.xq, -1));
    OK(XHintDeadline(queue.xq, 33000));
    OK(XHintDeadline(queue.xq, NO_DEADLINE));
    EXPECT(invalid, XHintDeadline(queue.xq, 0));
    EXPECT(refused, XHintLaxity(queue.xq, 100, 0, 1));
    OK(XHintTimeslice(TIMESLICE_MAX));
    EXPECT(invalid, XHintTimeslice(TIMESLICE_MIN - 1));
    OK(XHintKDeadline(2));
    EXPECT(invalid, XHintKDeadline(0));
    OK(XHintSetScheduler(kSchedulerLocal, kPolicyKEarliestDeadlineFirst));
    EXPECT(kXSchedErrorNotAllowed, XHintSetScheduler(kSchedulerGlobal, kPolicyUnknown));
    // Not without end.
    XResult result = kXSchedSuccess;
    for (int priority = 0; priority < 100 && result == kXSchedSuccess; priority++) result = XHintPriority(queue.xq, priority);
    wrong += result != kXSchedErrorNotAllowed;

    EXPECT(invalid, HwCommandCreateCallback(nullptr, nothing, nullptr));
    HwCommandHandle made = 0;
    EXPECT(invalid, HwCommandCreateCallback(&made, nullptr, nullptr));
    made = command(nothing);
    EXPECT(kXSchedErrorNotAllowed, XQueueWait(queue.xq, made));
    OK(XQueueSubmit(queue.xq, made));
    EXPECT(kXSchedErrorNotFound, XQueueSubmit(queue.xq, made));
    OK(XQueueWait(queue.xq, made));
    OK(XQueueWait(queue.xq, made));
    OK(HwCommandDestroy(made));
    EXPECT(kXSchedErrorNotFound, XQueueWait(queue.xq, made));
    EXPECT(kXSchedErrorNotFound, HwCommandDestroy(made));
    OK(XQueueSubmit(queue.xq, command(fails)));
    EXPECT(kXSchedErrorHardware, XQueueWaitAll(queue.xq));
    OK(XQueueWaitAll(queue.xq));
    OK(XQueueSubmit(queue.xq, command(looks_around, &queue)));
    OK(XQueueWaitAll(queue.xq));
    OK(HwQueueLaunch(queue.hwq, command(nothing)));
    EXPECT(kXSchedErrorHardware, HwQueueLaunch(queue.hwq, command(fails)));
    OK(HwQueueSynchronize(queue.hwq));

    EXPECT(invalid, XQueueSuspend(queue.xq, 1 << 20));
    OK(XQueueSuspend(queue.xq, kQueueSuspendFlagMaskAll));
    OK(XQueueSuspend(queue.xq, kQueueSuspendFlagNone));
    EXPECT(invalid, XQueueResume(queue.xq, 2));
    OK(XQueueResume(queue.xq, kQueueResumeFlagDropCommands));
    OK(XQueueResume(queue.xq, kQueueResumeFlagNone));

    // Suspended by its priority, until it gets another one.
    OK(XHintPriority(queue.xq, PRIORITY_NO_EXECUTE));
    made = command(nothing);
    OK(XQueueSubmit(queue.xq, made));
    XQueueState state = kQueueStateUnknown;
    OK(XQueueQuery(queue.xq, &state));
    wrong += state != kQueueStateReady;
    OK(XHintPriority(queue.xq, 0));
    OK(XQueueWait(queue.xq, made));
    OK(XQueueQuery(queue.xq, &state));
    wrong += state != kQueueStateIdle;
    EXPECT(invalid, XQueueQuery(queue.xq, nullptr));

    int64_t before = 0, after = 0;
    EXPECT(invalid, XQueueProfileHwCommandCount(queue.xq, nullptr));
    OK(XQueueProfileHwCommandCount(queue.xq, &before));
    for (int number = 0; number < 5; number++) queue.launch(10);
    OK(XQueueSubmit(queue.xq, command(nothing)));
    OK(XQueueProfileHwCommandCount(queue.xq, &after));
    wrong += after - before != 6;

    OK(XQueueDestroy(queue.xq));
    no_such_object(queue.xq);
    OK(HwQueueDestroy(queue.hwq));
    no_such_object(queue.hwq);
    return wrong + queue.wrong();
}

} // namespace codes_test

#endif
