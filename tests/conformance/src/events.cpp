// Events: when they are ready, how calls and streams wait for them, and what they measure.

#define AREA "events"

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

CASE(an_event_that_was_never_recorded_is_ready) {
    Event event;
    OK(hipEventQuery(event));
    OK(hipEventSynchronize(event));
    Stream stream;
    OK(hipStreamWaitEvent(stream, event, 0));
    OK(hipStreamSynchronize(stream));
}

CASE(an_event_behind_a_gate_is_not_ready) {
    Stream stream;
    Event event;
    Gate gate(stream);
    OK(hipEventRecord(event, stream));
    REFUSED(hipEventQuery(event), hipErrorNotReady);
    gate.open();
    OK(hipEventSynchronize(event));
    OK(hipEventQuery(event));
}

CASE(synchronizing_an_event_waits_for_it) {
    Stream stream;
    Event event(hipEventBlockingSync);
    Gate gate(stream);
    OK(hipEventRecord(event, stream));
    Pending synchronized([&] { return hipEventSynchronize(event); });
    bool blocked = synchronized.blocks();
    gate.open();
    REQUIRE(blocked);
    OK(synchronized.code());
}

CASE(an_event_does_not_wait_for_later_work) {
    Stream stream;
    Event event;
    OK(hipEventRecord(event, stream));
    Gate gate(stream);
    Pending synchronized([&] { return hipEventSynchronize(event); });
    bool returned = synchronized.returns();
    gate.open();
    REQUIRE(returned);
}

CASE(a_stream_waits_for_an_event_of_another) {
    Device<unsigned> data(64, 1), seen(64, 0);
    Stream first(hipStreamNonBlocking), second(hipStreamNonBlocking);
    Event event(hipEventDisableTiming);
    Gate gate(first);
    affine(first, data, 64, 0, 2);
    OK(hipEventRecord(event, first));
    OK(hipStreamWaitEvent(second, event, 0));
    copy(second, seen, data, 64);
    REFUSED(hipStreamQuery(second), hipErrorNotReady);
    gate.open();
    OK(hipStreamSynchronize(second));
    REQUIRE(seen.holds(2));
}

CASE(a_wait_uses_the_record_at_its_call) {
    Device<unsigned> data(64, 1), seen(64, 0);
    Stream held(hipStreamNonBlocking), waiter(hipStreamNonBlocking), idle(hipStreamNonBlocking);
    Event event;
    Gate gate(held);
    affine(held, data, 64, 0, 2);
    OK(hipEventRecord(event, held));
    OK(hipStreamWaitEvent(waiter, event, 0));
    copy(waiter, seen, data, 64);
    // The later record does not release the waiting call.
    OK(hipEventRecord(event, idle));
    OK(hipEventSynchronize(event));
    REFUSED(hipStreamQuery(waiter), hipErrorNotReady);
    gate.open();
    OK(hipStreamSynchronize(waiter));
    REQUIRE(seen.holds(2));
}

CASE(an_event_on_the_null_stream_waits_for_blocking_streams) {
    Stream blocking;
    Event event;
    Gate gate(blocking);
    OK(hipEventRecord(event, nullptr));
    REFUSED(hipEventQuery(event), hipErrorNotReady);
    gate.open();
    OK(hipEventSynchronize(event));
}

CASE(a_destroyed_event_is_refused) {
    Stream stream;
    for (int i = 0; i < 100; i++) {
        hipEvent_t recorded = nullptr, waited = nullptr;
        OK(hipEventCreate(&recorded));
        OK(hipEventCreate(&waited));
        OK(hipEventDestroy(recorded));
        OK(hipEventDestroy(waited));
        REFUSED(hipEventRecord(recorded, stream), hipErrorInvalidHandle);
        REFUSED(hipStreamWaitEvent(stream, waited, 0), hipErrorInvalidHandle);
    }
}

CASE(a_destroyed_event_still_orders_its_waiters) {
    Device<unsigned> data(64, 1), seen(64, 0);
    Stream first(hipStreamNonBlocking), second(hipStreamNonBlocking);
    hipEvent_t event = nullptr;
    OK(hipEventCreate(&event));
    Gate gate(first);
    affine(first, data, 64, 0, 2);
    OK(hipEventRecord(event, first));
    OK(hipStreamWaitEvent(second, event, 0));
    copy(second, seen, data, 64);
    Pending destroyed([&] { return hipEventDestroy(event); });
    destroyed.blocks();
    gate.open();
    OK(destroyed.code());
    OK(hipStreamSynchronize(second));
    REQUIRE(seen.holds(2));
}

CASE(elapsed_time_spans_the_work_between) {
    Stream stream;
    Event start, stop;
    OK(hipEventRecord(start, stream));
    OK(hipEventSynchronize(start));
    Gate gate(stream);
    OK(hipEventRecord(stop, stream));
    float ms = -1;
    REFUSED(hipEventElapsedTime(&ms, start, stop), hipErrorNotReady);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
    OK(hipEventSynchronize(stop));
    OK(hipEventElapsedTime(&ms, start, stop));
    REQUIRE(ms >= 19.5f);
    float back = 0;
    OK(hipEventElapsedTime(&back, stop, start));
    REQUIRE(back <= -19.5f);
}

CASE(elapsed_time_needs_two_records) {
    Event start, stop;
    float ms = -1;
    REFUSED(hipEventElapsedTime(&ms, start, stop), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
    OK(hipEventRecord(start, nullptr));
    OK(hipEventSynchronize(start));
    REFUSED(hipEventElapsedTime(&ms, start, stop), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
    REFUSED(hipEventElapsedTime(nullptr, start, start), hipErrorInvalidValue);
}

CASE(an_event_without_timing_measures_nothing) {
    Event start(hipEventDisableTiming), stop;
    OK(hipEventRecord(start, nullptr));
    OK(hipEventRecord(stop, nullptr));
    OK(hipDeviceSynchronize());
    float ms = -1;
    REFUSED(hipEventElapsedTime(&ms, start, stop), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
}

CASE(unknown_flags_are_refused) {
    hipEvent_t event = nullptr;
    REFUSED(hipEventCreateWithFlags(&event, 0x100), hipErrorInvalidValue);
    // An event for other processes cannot time.
    REFUSED(hipEventCreateWithFlags(&event, hipEventInterprocess), hipErrorInvalidValue);
    REFUSED(hipEventCreate(nullptr), hipErrorInvalidValue);
}

CASE(no_event_is_refused) {
    REFUSED(hipEventRecord(nullptr, nullptr), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
    REFUSED(hipEventQuery(nullptr), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
    REFUSED(hipEventSynchronize(nullptr), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
    REFUSED(hipEventDestroy(nullptr), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
    Stream stream;
    REFUSED(hipStreamWaitEvent(stream, nullptr, 0), hipErrorInvalidHandle, hipErrorInvalidResourceHandle);
}
