// Fills: patterns, bounds, and whether the call waits.

#define AREA "sets"

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

CASE(bytes_words_and_double_words_are_filled) {
    Device<unsigned> data(64, 0);
    unsigned *address = data;
    OK(hipMemset(address, 0x5a, 16));
    OK(hipMemsetD8(address + 4, 0x11, 4));
    OK(hipMemsetD16(address + 8, 0x1234, 2));
    OK(hipMemsetD32(address + 12, 0xdeadbeef, 2));
    OK(hipDeviceSynchronize());
    auto found = data.read();
    EQUAL(found[0], 0x5a5a5a5au);
    EQUAL(found[3], 0x5a5a5a5au);
    EQUAL(found[4], 0x11111111u);
    EQUAL(found[5], 0u);
    EQUAL(found[8], 0x12341234u);
    EQUAL(found[9], 0u);
    EQUAL(found[13], 0xdeadbeefu);
    EQUAL(found[14], 0u);
}

CASE(only_the_low_byte_of_the_value_counts) {
    Device<unsigned> data(16, 0);
    OK(hipMemset(data, 0x1ff, data.bytes()));
    REQUIRE(data.holds(0xffffffff));
}

CASE(a_fill_past_the_end_is_refused) {
    Device<unsigned> data(16, 3);
    REFUSED(hipMemset(data, 0, 65), hipErrorInvalidValue);
    REFUSED(hipMemsetAsync(data + 8, 0, 33, nullptr), hipErrorInvalidValue);
    REFUSED(hipMemset(nullptr, 0, 4), hipErrorInvalidValue);
    REQUIRE(data.holds(3));
}

CASE(a_fill_of_device_memory_does_not_wait) {
    Device<unsigned> data(64, 1);
    Stream blocking;
    {
        Gate gate(blocking);
        Pending filled([&] { return hipMemset(data, 0, data.bytes()); });
        bool returned = filled.returns();
        gate.open();
        OK(filled.code());
        REQUIRE(returned);
    }
    REQUIRE(data.holds(0));
}

CASE(a_fill_keeps_its_position_in_the_stream) {
    Device<unsigned> data(64, 1);
    Stream stream;
    OK(hipMemsetAsync(data, 0, data.bytes(), stream));
    affine(stream, data, 64, 1, 5);
    OK(hipMemsetD32Async(static_cast<unsigned *>(data), 9, 32, stream));
    affine(stream, data, 64, 2, 0);
    OK(hipStreamSynchronize(stream));
    auto found = data.read();
    EQUAL(found[31], 18u);
    EQUAL(found[32], 10u);
}

CASE(pinned_memory_is_filled) {
    Pinned<unsigned> host(64, 0);
    OK(hipMemset(host, 0x22, host.bytes()));
    OK(hipDeviceSynchronize());
    REQUIRE(host.holds(0x22222222));
}

CASE(rows_of_a_rectangle_are_filled) {
    Device<unsigned char> data(256, 0);
    OK(hipMemset2D(data, 64, 7, 16, 3));
    OK(hipDeviceSynchronize());
    auto found = data.read();
    EQUAL(int(found[15]), 7);
    EQUAL(int(found[16]), 0);
    EQUAL(int(found[64 * 2 + 15]), 7);
    EQUAL(int(found[64 * 3]), 0);
}
