// Capture: streams that record instead of working, and calls that break a capture.

#define AREA "capture"

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

constexpr unsigned COUNT = 64;

hipStreamCaptureStatus status_of(hipStream_t stream) {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    OK(hipStreamIsCapturing(stream, &status));
    return status;
}

void begin(hipStream_t stream, hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
    OK(hipStreamBeginCapture(stream, mode));
}

// Ends a capture and launches what it recorded `times` times.
void launch(hipStream_t stream, int times = 1) {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    OK(hipStreamEndCapture(stream, &graph));
    REQUIRE(graph != nullptr);
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    for (int i = 0; i < times; i++) OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
}

// Ends a capture that must have been broken.
void is_invalidated(hipStream_t stream) {
    hipGraph_t graph = nullptr;
    REFUSED(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
    REQUIRE(graph == nullptr);
    EQUAL(status_of(stream), hipStreamCaptureStatusInvalidated);
}

} // namespace

CASE(captured_work_runs_with_the_graph_only) {
    Device<unsigned> data(COUNT, 1);
    Stream stream(hipStreamNonBlocking);
    EQUAL(status_of(stream), hipStreamCaptureStatusNone);
    begin(stream);
    EQUAL(status_of(stream), hipStreamCaptureStatusActive);
    affine(stream, data, COUNT, 3, 1);
    affine(stream, data, COUNT, 2, 0);
    hipGraph_t graph = nullptr;
    OK(hipStreamEndCapture(stream, &graph));
    EQUAL(status_of(stream), hipStreamCaptureStatusNone);
    REQUIRE(data.holds(1));
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    REQUIRE(data.holds(8));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
}

CASE(arguments_are_captured_with_the_launch) {
    Device<unsigned> data(COUNT, 0);
    Stream stream;
    unsigned *address = data;
    unsigned count = COUNT, factor = 1, term = 2;
    void *arguments[] = {&address, &count, &factor, &term};
    begin(stream);
    OK(hipLaunchKernel(affine_kernel(), dim3(1), dim3(COUNT), arguments, 0, stream));
    term = 99;
    address = nullptr;
    launch(stream, 3);
    REQUIRE(data.holds(6));
}

CASE(copies_and_fills_are_captured) {
    Device<unsigned> data(COUNT, 0), other(COUNT, 0);
    Pinned<unsigned> from(COUNT, 3), to(COUNT, 0);
    Stream stream;
    begin(stream);
    OK(hipMemcpyAsync(data, from, data.bytes(), hipMemcpyHostToDevice, stream));
    affine(stream, data, COUNT, 2, 1);
    OK(hipMemcpyAsync(other, data, data.bytes(), hipMemcpyDeviceToDevice, stream));
    OK(hipMemsetAsync(data, 0, data.bytes(), stream));
    OK(hipMemcpyAsync(to, other, data.bytes(), hipMemcpyDeviceToHost, stream));
    launch(stream);
    REQUIRE(to.holds(7));
    REQUIRE(data.holds(0));
}

CASE(host_functions_are_captured) {
    std::atomic<int> calls = 0;
    Stream stream;
    begin(stream);
    auto count = [](void *calls) { ++*static_cast<std::atomic<int> *>(calls); };
    OK(hipLaunchHostFunc(stream, count, &calls));
    EQUAL(calls.load(), 0);
    launch(stream, 4);
    EQUAL(calls.load(), 4);
}

CASE(a_stream_that_waits_for_a_captured_event_is_captured_too) {
    Device<unsigned> data(COUNT, 1), side(COUNT, 1);
    Stream origin, fork;
    Event forked, joined;
    begin(origin);
    affine(origin, data, COUNT, 5, 0);
    OK(hipEventRecord(forked, origin));
    OK(hipStreamWaitEvent(fork, forked, 0));
    EQUAL(status_of(fork), hipStreamCaptureStatusActive);
    copy(fork, side, data, COUNT);
    OK(hipEventRecord(joined, fork));
    OK(hipStreamWaitEvent(origin, joined, 0));
    affine(origin, side, COUNT, 1, 1);
    launch(origin);
    EQUAL(status_of(fork), hipStreamCaptureStatusNone);
    REQUIRE(data.holds(5));
    REQUIRE(side.holds(6));
}

CASE(an_unjoined_fork_breaks_the_capture) {
    Device<unsigned> data(COUNT, 1), side(COUNT, 1);
    Stream origin, fork;
    Event forked;
    begin(origin);
    affine(origin, data, COUNT, 5, 0);
    OK(hipEventRecord(forked, origin));
    OK(hipStreamWaitEvent(fork, forked, 0));
    affine(fork, side, COUNT, 5, 0);
    hipGraph_t graph = nullptr;
    REFUSED(hipStreamEndCapture(origin, &graph), hipErrorStreamCaptureUnjoined);
}

CASE(synchronizing_a_capturing_stream_breaks_the_capture) {
    Stream stream;
    begin(stream);
    REFUSED(hipStreamSynchronize(stream), hipErrorStreamCaptureUnsupported);
    EQUAL(status_of(stream), hipStreamCaptureStatusInvalidated);
    is_invalidated(stream);
}

CASE(querying_a_capturing_stream_breaks_the_capture) {
    Stream stream;
    begin(stream);
    REFUSED(hipStreamQuery(stream), hipErrorStreamCaptureUnsupported);
    is_invalidated(stream);
}

CASE(an_event_of_a_capture_is_not_waited_for) {
    Stream stream;
    Event event;
    begin(stream);
    OK(hipEventRecord(event, stream));
    REFUSED(hipEventSynchronize(event), hipErrorCapturedEvent, hipErrorStreamCaptureUnsupported);
    is_invalidated(stream);
}

CASE(allocating_during_a_global_capture_breaks_it) {
    Stream stream;
    void *address = nullptr;
    begin(stream);
    REFUSED(hipMalloc(&address, 64), hipErrorStreamCaptureUnsupported);
    is_invalidated(stream);
}

CASE(allocating_during_a_relaxed_capture_is_fine) {
    Stream stream;
    void *address = nullptr;
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    begin(stream, hipStreamCaptureModeRelaxed);
    OK(hipMalloc(&address, 64));
    hipGraph_t graph = nullptr;
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphDestroy(graph));
    OK(hipFree(address));
}

CASE(a_synchronous_copy_during_a_capture_breaks_it) {
    Device<unsigned> data(COUNT, 1);
    std::vector<unsigned> host(COUNT);
    Stream stream;
    begin(stream);
    REFUSED(hipMemcpy(host.data(), data, data.bytes(), hipMemcpyDeviceToHost), hipErrorStreamCaptureImplicit,
            hipErrorStreamCaptureUnsupported);
    is_invalidated(stream);
}

// Work on other streams goes on meanwhile.
CASE(after_a_broken_capture_the_stream_refuses_work_until_the_next_one) {
    Device<unsigned> data(COUNT, 0);
    Pinned<unsigned> from(COUNT, 9);
    Stream stream, other;
    begin(stream);
    REFUSED(hipStreamSynchronize(stream), hipErrorStreamCaptureUnsupported);
    is_invalidated(stream);
    hipGraph_t graph = nullptr;
    REFUSED(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureWrongThread);
    for (int i = 0; i < 300; i++) {
        REFUSED(hipMemcpyAsync(data, from, data.bytes(), hipMemcpyHostToDevice, stream), hipErrorStreamCaptureInvalidated);
        OK(hipMemsetAsync(data, 0, data.bytes(), other));
    }
    affine(other, data, COUNT, 1, 1);
    OK(hipStreamSynchronize(other));
    REQUIRE(data.holds(1));
    begin(stream);
    affine(stream, data, COUNT, 1, 1);
    launch(stream, 2);
    REQUIRE(data.holds(3));
}

CASE(the_null_stream_is_not_captured) {
    REFUSED(hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal), hipErrorStreamCaptureUnsupported,
            hipErrorStreamCaptureImplicit);
}

CASE(a_capture_begins_once_and_ends_once) {
    Stream stream;
    hipGraph_t graph = nullptr;
    REFUSED(hipStreamEndCapture(stream, &graph), hipErrorIllegalState);
    begin(stream);
    REFUSED(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipErrorIllegalState);
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphDestroy(graph));
    REFUSED(hipStreamEndCapture(stream, &graph), hipErrorIllegalState);
}

CASE(another_thread_does_not_end_a_capture) {
    Stream stream;
    begin(stream);
    hipError_t theirs = hipSuccess;
    hipGraph_t graph = nullptr;
    std::thread([&] { theirs = hipStreamEndCapture(stream, &graph); }).join();
    REFUSED(theirs, hipErrorStreamCaptureWrongThread);
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphDestroy(graph));
}

CASE(other_streams_work_during_a_thread_local_capture) {
    Device<unsigned> data(COUNT, 0), captured(COUNT, 0);
    Stream stream(hipStreamNonBlocking);
    begin(stream, hipStreamCaptureModeThreadLocal);
    affine(stream, captured, COUNT, 1, 1);
    hipError_t code = hipErrorUnknown;
    std::thread([&] {
        Stream other(hipStreamNonBlocking);
        affine(other, data, COUNT, 1, 2);
        code = hipStreamSynchronize(other);
    }).join();
    OK(code);
    launch(stream);
    REQUIRE(data.holds(2));
    REQUIRE(captured.holds(1));
}
