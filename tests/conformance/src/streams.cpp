// Streams: their properties, their order, and which of them wait for each other.

#define AREA "streams"

#include <cstring>

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

// Memory that streams can wait for, set to zero.
void *new_signal() {
    int can = 0;
    OK(hipDeviceGetAttribute(&can, hipDeviceAttributeCanUseStreamWaitValue, 0));
    if (can == 0) suite::skip("the device cannot wait for values");
    void *signal = nullptr;
    OK(hipExtMallocWithFlags(&signal, 8, hipMallocSignalMemory));
    OK(hipMemset(signal, 0, 8));
    OK(hipDeviceSynchronize());
    return signal;
}

// Many more streams than a process has hardware queues: four, unless GPU_MAX_HW_QUEUES says otherwise.
class Crowd {
  public:
    Crowd() : data(64 * COUNT, 1) {
        for (int i = 0; i < COUNT; i++) streams.push_back(std::make_unique<Stream>(hipStreamNonBlocking));
    }

    // Launches one kernel in each.
    void launch() {
        for (int i = 0; i < COUNT; i++) affine(*streams[i], data + 64 * i, 64, 3, 1);
    }

    // A stream that shares its queue with no waiting stream.
    hipStream_t one_that_finishes() {
        for (;;)
            for (auto &stream : streams)
                if (hipStreamQuery(*stream) == hipSuccess) return *stream;
    }

    // After a while. A blocked stream always passes; streams that were only slow would hide a fault.
    bool is_any_blocked() {
        std::this_thread::sleep_for(std::chrono::milliseconds(40));
        for (auto &stream : streams)
            if (hipStreamQuery(*stream) == hipErrorNotReady) return true;
        return false;
    }

    bool finishes() { return data.holds(4); }

  private:
    static constexpr int COUNT = 64;
    Device<unsigned> data;
    std::vector<std::unique_ptr<Stream>> streams;
};

} // namespace

CASE(flags_are_read_back) {
    unsigned flags = 99;
    Stream plain, non_blocking(hipStreamNonBlocking);
    OK(hipStreamGetFlags(plain, &flags));
    EQUAL(flags, static_cast<unsigned>(hipStreamDefault));
    OK(hipStreamGetFlags(non_blocking, &flags));
    EQUAL(flags, static_cast<unsigned>(hipStreamNonBlocking));
}

CASE(unknown_flags_are_refused) {
    hipStream_t stream = nullptr;
    REFUSED(hipStreamCreateWithFlags(&stream, 0x40), hipErrorInvalidValue);
    REFUSED(hipStreamCreate(nullptr), hipErrorInvalidValue);
}

CASE(priorities_lie_in_their_range) {
    int least = 0, greatest = 0, found = 0;
    OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
    REQUIRE(least >= greatest);
    for (int priority : {least, greatest}) {
        hipStream_t stream = nullptr;
        OK(hipStreamCreateWithPriority(&stream, hipStreamDefault, priority));
        OK(hipStreamGetPriority(stream, &found));
        EQUAL(found, priority);
        OK(hipStreamDestroy(stream));
    }
    // A priority beyond the range is clamped.
    hipStream_t stream = nullptr;
    OK(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, greatest - 10));
    OK(hipStreamGetPriority(stream, &found));
    EQUAL(found, greatest);
    OK(hipStreamDestroy(stream));
}

CASE(a_new_stream_is_idle) {
    Stream stream;
    OK(hipStreamQuery(stream));
    OK(hipStreamSynchronize(stream));
}

CASE(a_stream_behind_a_gate_is_not_ready) {
    Device<unsigned> data(64, 0);
    Stream stream;
    Gate gate(stream);
    affine(stream, data, 64, 1, 1);
    REFUSED(hipStreamQuery(stream), hipErrorNotReady);
    gate.open();
    OK(hipStreamSynchronize(stream));
    OK(hipStreamQuery(stream));
    REQUIRE(data.holds(1));
}

CASE(work_of_one_stream_keeps_its_order) {
    constexpr unsigned STEPS = 200;
    Device<unsigned> data(64, 1);
    Stream stream;
    unsigned expected = 1;
    for (unsigned step = 0; step < STEPS; step++) {
        affine(stream, data, 64, 3, step);
        expected = expected * 3 + step;
    }
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(expected));
}

CASE(one_stream_does_not_wait_for_another) {
    Device<unsigned> data(64, 0);
    Stream held, free;
    Gate gate(held);
    affine(free, data, 64, 1, 1);
    Pending synchronized([&] { return hipStreamSynchronize(free); });
    bool returned = synchronized.returns();
    gate.open();
    REQUIRE(returned);
    OK(synchronized.code());
}

CASE(synchronizing_a_stream_waits_for_it) {
    Stream stream;
    Gate gate(stream);
    Pending synchronized([&] { return hipStreamSynchronize(stream); });
    bool blocked = synchronized.blocks();
    gate.open();
    REQUIRE(blocked);
    OK(synchronized.code());
}

CASE(synchronizing_the_device_waits_for_every_stream) {
    Stream plain, non_blocking(hipStreamNonBlocking);
    Gate gate(non_blocking);
    Pending synchronized([] { return hipDeviceSynchronize(); });
    bool blocked = synchronized.blocks();
    gate.open();
    REQUIRE(blocked);
    OK(synchronized.code());
}

CASE(a_destroyed_stream_finishes_its_work) {
    Device<unsigned> data(64, 0);
    hipStream_t stream = nullptr;
    OK(hipStreamCreate(&stream));
    Gate gate(stream);
    affine(stream, data, 64, 1, 5);
    Pending destroyed([&] { return hipStreamDestroy(stream); });
    // Releases differ in whether the call waits.
    destroyed.blocks();
    gate.open();
    OK(destroyed.code());
    REQUIRE(data.holds(5));
}

CASE(the_null_stream_is_not_destroyed) {
    REFUSED(hipStreamDestroy(nullptr), hipErrorInvalidHandle, hipErrorInvalidValue);
    OK(hipStreamQuery(nullptr));
}

CASE(streams_know_their_device) {
    auto device_of = suite::find<hipError_t(hipStream_t, hipDevice_t *)>("hipStreamGetDevice");
    Stream stream;
    hipDevice_t device = -1;
    OK(device_of(stream, &device));
    EQUAL(device, 0);
}

CASE(a_stream_waits_for_a_value_in_memory) {
    void *signal = new_signal();
    Device<unsigned> data(64, 0);
    Stream held, other;
    OK(hipStreamWaitValue32(held, signal, 3, hipStreamWaitValueGte, 0xffffffff));
    affine(held, data, 64, 1, 2);
    REFUSED(hipStreamQuery(held), hipErrorNotReady);
    OK(hipStreamWriteValue32(other, signal, 3, 0));
    OK(hipStreamSynchronize(held));
    REQUIRE(data.holds(2));
    OK(hipFree(signal));
}

CASE(a_written_value_comes_after_the_work_before_it) {
    Device<unsigned> data(64, 0);
    Pinned<unsigned> flag(2, 0);
    Stream stream;
    Gate gate(stream);
    OK(hipStreamWriteValue32(stream, flag, 77, 0));
    EQUAL(flag[0], 0u);
    gate.open();
    OK(hipStreamSynchronize(stream));
    EQUAL(flag[0], 77u);
}

// `hipStreamBatchMemOpParams`, which headers of older releases lack.
struct WordOperation {
    unsigned operation;
    void *address;
    unsigned long long value;
    unsigned flags;
    unsigned long long unused[2];
};

CASE(a_batch_of_written_values_comes_after_the_work_before_it) {
    constexpr unsigned WRITE_32 = 2;
    auto submit = suite::find<hipError_t(hipStream_t, unsigned, WordOperation *, unsigned)>("hipStreamBatchMemOp");
    Pinned<unsigned> flags(2, 0);
    Stream stream;
    Gate gate(stream);
    WordOperation operations[2] = {{WRITE_32, flags, 77, 0, {}}, {WRITE_32, flags + 1, 78, 0, {}}};
    OK(submit(stream, 2, operations, 0));
    // They belong to the caller again as soon as the call has returned.
    std::memset(operations, 0x5a, sizeof operations);
    EQUAL(flags[0], 0u);
    EQUAL(flags[1], 0u);
    gate.open();
    OK(hipStreamSynchronize(stream));
    EQUAL(flags[0], 77u);
    EQUAL(flags[1], 78u);
}

CASE(a_wait_for_a_value_blocks_the_streams_that_share_its_hardware_queue) {
    void *signal = new_signal();
    Stream held(hipStreamNonBlocking);
    Crowd crowd;
    OK(hipStreamWaitValue32(held, signal, 3, hipStreamWaitValueGte, 0xffffffff));
    crowd.launch();
    hipStream_t free = crowd.one_that_finishes();
    REQUIRE(crowd.is_any_blocked());
    OK(hipStreamWriteValue32(free, signal, 3, 0));
    REQUIRE(crowd.finishes());
    OK(hipStreamSynchronize(held));
    OK(hipFree(signal));
}

CASE(a_host_function_blocks_the_streams_that_share_its_hardware_queue) {
    Stream held(hipStreamNonBlocking);
    Crowd crowd;
    Gate gate(held);
    crowd.launch();
    (void)crowd.one_that_finishes();
    bool is_any_blocked = crowd.is_any_blocked();
    gate.open();
    REQUIRE(crowd.finishes());
    REQUIRE(is_any_blocked);
}
