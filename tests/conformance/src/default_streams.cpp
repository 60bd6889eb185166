// The null stream, the per-thread streams, and streams that are independent of them.

#define AREA "default_streams"

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

constexpr unsigned COUNT = 64;

// Gives work that wrongly does not wait the time to become visible.
void linger() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// Blocks `first`, lets it write, and lets `second` read the result: it is seen if and only if `second`
// waited.
void second_waits(hipStream_t first, hipStream_t second) {
    Device<unsigned> data(COUNT, 1), seen(COUNT, 0);
    Gate gate(first);
    affine(first, data, COUNT, 0, 2);
    copy(second, seen, data, COUNT);
    REFUSED(hipStreamQuery(second), hipErrorNotReady);
    linger();
    gate.open();
    OK(hipStreamSynchronize(second));
    REQUIRE(seen.holds(2));
}

void second_does_not_wait(hipStream_t first, hipStream_t second) {
    Device<unsigned> data(COUNT, 0);
    Event done;
    Gate gate(first);
    affine(second, data, COUNT, 1, 1);
    OK(hipEventRecord(done, second));
    Pending synchronized([&] { return hipEventSynchronize(done); });
    bool returned = synchronized.returns();
    gate.open();
    REQUIRE(returned);
    OK(synchronized.code());
    REQUIRE(data.holds(1));
}

} // namespace

CASE(the_null_stream_waits_for_a_blocking_stream) {
    Stream blocking;
    second_waits(blocking, nullptr);
}

CASE(a_blocking_stream_waits_for_the_null_stream) {
    Stream blocking;
    second_waits(nullptr, blocking);
}

CASE(two_blocking_streams_wait_through_the_null_stream) {
    Device<unsigned> data(COUNT, 1), middle(COUNT, 0), seen(COUNT, 0);
    Stream first, second;
    Gate gate(first);
    affine(first, data, COUNT, 0, 2);
    copy(nullptr, middle, data, COUNT);
    copy(second, seen, middle, COUNT);
    linger();
    gate.open();
    OK(hipStreamSynchronize(second));
    REQUIRE(seen.holds(2));
}

CASE(the_null_stream_does_not_wait_for_a_non_blocking_stream) {
    Stream non_blocking(hipStreamNonBlocking);
    second_does_not_wait(non_blocking, nullptr);
}

CASE(a_non_blocking_stream_does_not_wait_for_the_null_stream) {
    Stream non_blocking(hipStreamNonBlocking);
    second_does_not_wait(nullptr, non_blocking);
}

CASE(synchronizing_the_null_stream_waits_for_blocking_streams) {
    Stream blocking;
    Gate gate(blocking);
    Pending synchronized([] { return hipStreamSynchronize(nullptr); });
    bool blocked = synchronized.blocks();
    gate.open();
    REQUIRE(blocked);
    OK(synchronized.code());
}

CASE(synchronizing_the_null_stream_does_not_wait_for_non_blocking_streams) {
    Stream non_blocking(hipStreamNonBlocking);
    OK(hipStreamSynchronize(nullptr));
    Gate gate(non_blocking);
    Pending synchronized([] { return hipStreamSynchronize(nullptr); });
    bool returned = synchronized.returns();
    gate.open();
    REQUIRE(returned);
}

CASE(a_launch_without_a_stream_goes_to_the_null_stream) {
    Device<unsigned> data(COUNT, 0);
    Gate gate(nullptr);
    affine(nullptr, data, COUNT, 1, 1);
    REFUSED(hipStreamQuery(nullptr), hipErrorNotReady);
    gate.open();
    OK(hipStreamSynchronize(nullptr));
    REQUIRE(data.holds(1));
}

CASE(each_thread_has_a_stream_of_its_own) {
    Gate gate(hipStreamPerThread);
    Pending other([] { return hipStreamSynchronize(hipStreamPerThread); });
    bool returned = other.returns();
    REFUSED(hipStreamQuery(hipStreamPerThread), hipErrorNotReady);
    gate.open();
    REQUIRE(returned);
    OK(hipStreamSynchronize(hipStreamPerThread));
}

// Repeatedly, because a library that follows other libraries' work records its own events at arbitrary times.
CASE(a_stream_that_is_done_stays_so_while_the_null_stream_is_blocked) {
    Stream blocking;
    Event done;
    Device<unsigned> data(COUNT, 0);
    for (int i = 0; i < 20; i++) {
        affine(blocking, data, COUNT, 1, 1);
        OK(hipEventRecord(done, blocking));
        OK(hipEventSynchronize(done));
        Gate gate(nullptr);
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
        hipError_t ready = hipStreamQuery(blocking);
        Pending synchronized([&] { return hipStreamSynchronize(blocking); });
        bool returned = synchronized.returns();
        gate.open();
        OK(ready);
        REQUIRE(returned);
        OK(hipStreamSynchronize(nullptr));
    }
}

CASE(a_stream_that_a_copy_has_waited_for_is_done) {
    for (hipStream_t stream : {hipStream_t(nullptr), hipStreamPerThread}) {
        Device<unsigned> data(COUNT, 0);
        for (unsigned i = 0; i < 20; i++) {
            std::vector<unsigned> seen(COUNT);
            affine(stream, data, COUNT, 1, 1);
            OK(hipMemcpyAsync(seen.data(), data, data.bytes(), hipMemcpyDeviceToHost, stream));
            OK(hipStreamQuery(stream));
            REQUIRE(seen[0] == i + 1);
        }
    }
}

CASE(a_per_thread_stream_waits_for_the_null_stream) { second_waits(nullptr, hipStreamPerThread); }
CASE(the_null_stream_waits_for_a_per_thread_stream) { second_waits(hipStreamPerThread, nullptr); }

CASE(a_threads_stream_finishes_after_the_thread) {
    Device<unsigned> data(COUNT, 0);
    unsigned *address = data;
    Stream held;
    Event open;
    Gate gate(held);
    OK(hipEventRecord(open, held));
    std::thread([&] {
        OK(hipStreamWaitEvent(hipStreamPerThread, open, 0));
        affine(hipStreamPerThread, address, COUNT, 1, 4);
        gate.open();
    }).join();
    REQUIRE(data.holds(4));
}

CASE(per_thread_functions_take_null_for_the_threads_stream) {
    auto query = suite::find<hipError_t(hipStream_t)>("hipStreamQuery_spt");
    auto synchronize = suite::find<hipError_t(hipStream_t)>("hipStreamSynchronize_spt");
    Stream blocking;
    Gate gate(blocking);
    // The null stream would have to wait for the blocking one; the thread's stream need not.
    Pending synchronized([&] { return synchronize(nullptr); });
    bool returned = synchronized.returns();
    hipError_t ready = query(nullptr);
    gate.open();
    REQUIRE(returned);
    OK(ready);
}

CASE(per_thread_functions_take_the_legacy_handle_for_the_threads_stream) {
    int version = 0;
    OK(hipRuntimeGetVersion(&version));
    if (version < 60400000) suite::skip("the handle came with 6.4");
    auto query = suite::find<hipError_t(hipStream_t)>("hipStreamQuery_spt");
    auto legacy = reinterpret_cast<hipStream_t>(1);
    Gate gate(nullptr);
    hipError_t ready = query(legacy);
    hipError_t null = hipStreamQuery(legacy);
    gate.open();
    OK(ready);
    REFUSED(null, hipErrorNotReady);
}

CASE(the_legacy_handle_is_the_null_stream) {
    int version = 0;
    OK(hipRuntimeGetVersion(&version));
    if (version < 60400000) suite::skip("the handle came with 6.4");
    auto legacy = reinterpret_cast<hipStream_t>(1);
    Gate gate(nullptr);
    REFUSED(hipStreamQuery(legacy), hipErrorNotReady);
    gate.open();
    OK(hipStreamSynchronize(legacy));
    OK(hipStreamQuery(nullptr));
}
