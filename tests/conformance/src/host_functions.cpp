// Host functions in a stream: their order, their arguments, and the calls that wait for them.

#define AREA "host_functions"

#include <mutex>

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

struct Log {
    std::mutex mutex;
    std::vector<int> entries;

    void add(int entry) {
        std::lock_guard lock(mutex);
        entries.push_back(entry);
    }
};

struct Entry {
    Log *log;
    int number;

    static void write(void *self) {
        auto *entry = static_cast<Entry *>(self);
        entry->log->add(entry->number);
    }
    static void write_as_callback(hipStream_t, hipError_t, void *self) { write(self); }
};

} // namespace

CASE(functions_of_one_stream_are_called_in_order) {
    Log log;
    Entry entries[20];
    Stream stream;
    std::vector<int> expected;
    for (int i = 0; i < 20; i++) {
        entries[i] = {&log, i};
        expected.push_back(i);
        if (i % 2 == 0)
            OK(hipLaunchHostFunc(stream, Entry::write, &entries[i]));
        else
            OK(hipStreamAddCallback(stream, Entry::write_as_callback, &entries[i], 0));
    }
    OK(hipStreamSynchronize(stream));
    REQUIRE(log.entries == expected);
}

CASE(a_function_sees_earlier_copies) {
    struct Check {
        const unsigned *memory;
        std::atomic<unsigned> found = 0;
    };
    Device<unsigned> data(64, 1);
    Pinned<unsigned> host(64, 0);
    Check check{host};
    Stream stream;
    affine(stream, data, 64, 5, 1);
    OK(hipMemcpyAsync(host, data, data.bytes(), hipMemcpyDeviceToHost, stream));
    auto look = [](void *user) {
        auto *check = static_cast<Check *>(user);
        check->found = check->memory[63];
    };
    OK(hipLaunchHostFunc(stream, look, &check));
    OK(hipStreamSynchronize(stream));
    EQUAL(check.found.load(), 6u);
}

CASE(later_work_waits_for_the_function) {
    Pinned<unsigned> host(64, 1);
    Device<unsigned> data(64, 0);
    Stream stream;
    auto change = [](void *memory) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        for (unsigned i = 0; i < 64; i++) static_cast<unsigned *>(memory)[i] = 2;
    };
    OK(hipLaunchHostFunc(stream, change, host));
    OK(hipMemcpyAsync(data, host, data.bytes(), hipMemcpyHostToDevice, stream));
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(2));
}

CASE(a_callback_gets_its_stream_and_success) {
    struct Received {
        hipStream_t stream = nullptr;
        hipError_t status = hipErrorUnknown;
    };
    Received received;
    Stream stream;
    auto note = [](hipStream_t stream, hipError_t status, void *user) {
        *static_cast<Received *>(user) = {stream, status};
    };
    OK(hipStreamAddCallback(stream, note, &received, 0));
    OK(hipStreamSynchronize(stream));
    REQUIRE(received.stream == stream);
    EQUAL(received.status, hipSuccess);
}

CASE(a_function_on_the_null_stream_waits_for_blocking_streams) {
    Log log;
    Entry entry = {&log, 1};
    Stream blocking;
    Gate gate(blocking);
    OK(hipLaunchHostFunc(nullptr, Entry::write, &entry));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    {
        std::lock_guard lock(log.mutex);
        REQUIRE(log.entries.empty());
    }
    gate.open();
    OK(hipDeviceSynchronize());
    EQUAL(log.entries.size(), 1u);
}

CASE(a_function_runs_on_another_thread) {
    std::thread::id here = std::this_thread::get_id(), there = here;
    Stream stream;
    auto note = [](void *user) { *static_cast<std::thread::id *>(user) = std::this_thread::get_id(); };
    OK(hipLaunchHostFunc(stream, note, &there));
    OK(hipStreamSynchronize(stream));
    REQUIRE(there != here);
}

CASE(no_function_and_unknown_flags_are_refused) {
    Stream stream;
    REFUSED(hipLaunchHostFunc(stream, nullptr, nullptr), hipErrorInvalidValue);
    REFUSED(hipStreamAddCallback(stream, nullptr, nullptr, 0), hipErrorInvalidValue);
    REFUSED(hipStreamAddCallback(stream, Entry::write_as_callback, nullptr, 1), hipErrorInvalidValue);
}
