// Copies: contents, bounds, order, and whether the call waits for the copy.

#define AREA "copies"

#include <cstring>
#include <numeric>

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

constexpr unsigned COUNT = 1024;

std::vector<unsigned> ramp(unsigned first = 0) {
    std::vector<unsigned> values(COUNT);
    std::iota(values.begin(), values.end(), first);
    return values;
}

// Makes a call while `stream` is blocked, opens the gate, and returns whether the call had waited for it.
template <typename Call> bool waits(hipStream_t stream, Call call) {
    Gate gate(stream);
    Pending pending(call);
    bool blocked = pending.blocks();
    gate.open();
    OK(pending.code());
    return blocked;
}

// The same for a call that must return by itself.
template <typename Call> bool comes_back(hipStream_t stream, Call call) {
    Gate gate(stream);
    Pending pending(call);
    bool returned = pending.returns();
    gate.open();
    OK(pending.code());
    return returned;
}

} // namespace

CASE(contents_survive_every_direction) {
    auto values = ramp();
    Device<unsigned> first(COUNT), second(COUNT);
    Pinned<unsigned> pinned(COUNT);
    OK(hipMemcpy(first, values.data(), first.bytes(), hipMemcpyHostToDevice));
    OK(hipMemcpy(second, first, first.bytes(), hipMemcpyDeviceToDevice));
    OK(hipMemcpy(pinned, second, first.bytes(), hipMemcpyDeviceToHost));
    std::vector<unsigned> back(COUNT);
    OK(hipMemcpy(back.data(), pinned, first.bytes(), hipMemcpyHostToHost));
    REQUIRE(back == values);
}

CASE(the_default_kind_is_derived_from_the_addresses) {
    auto values = ramp(7);
    Device<unsigned> first(COUNT), second(COUNT);
    std::vector<unsigned> back(COUNT);
    OK(hipMemcpy(first, values.data(), first.bytes(), hipMemcpyDefault));
    OK(hipMemcpy(second, first, first.bytes(), hipMemcpyDefault));
    OK(hipMemcpy(back.data(), second, first.bytes(), hipMemcpyDefault));
    REQUIRE(back == values);
}

CASE(parts_of_an_allocation_are_copied) {
    Device<unsigned> data(COUNT, 0);
    auto values = ramp(1);
    OK(hipMemcpy(data + 100, values.data(), 40, hipMemcpyHostToDevice));
    auto found = data.read();
    EQUAL(found[99], 0u);
    EQUAL(found[100], 1u);
    EQUAL(found[109], 10u);
    EQUAL(found[110], 0u);
}

CASE(driver_style_copies_move_the_same) {
    auto values = ramp(3);
    Device<unsigned> first(COUNT), second(COUNT);
    unsigned *one = first, *two = second;
    std::vector<unsigned> back(COUNT);
    Stream stream;
    OK(hipMemcpyHtoD(one, values.data(), first.bytes()));
    OK(hipMemcpyDtoD(two, one, first.bytes()));
    OK(hipMemcpyDtoH(back.data(), two, first.bytes()));
    REQUIRE(back == values);
    OK(hipMemset(two, 0, second.bytes()));
    OK(hipDeviceSynchronize());
    OK(hipMemcpyDtoDAsync(two, one, first.bytes(), stream));
    std::vector<unsigned> again(COUNT);
    OK(hipMemcpyDtoHAsync(again.data(), two, first.bytes(), stream));
    OK(hipStreamSynchronize(stream));
    REQUIRE(again == values);
}

CASE(a_copy_past_the_end_is_refused) {
    Device<unsigned> data(16, 5);
    std::vector<unsigned> values(COUNT);
    REFUSED(hipMemcpy(data, values.data(), 65, hipMemcpyHostToDevice), hipErrorInvalidValue);
    REFUSED(hipMemcpy(values.data(), data + 8, 36, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    REFUSED(hipMemcpyAsync(data, values.data(), 65, hipMemcpyHostToDevice, nullptr), hipErrorInvalidValue);
    REQUIRE(data.holds(5));
}

CASE(no_address_and_no_such_direction_are_refused) {
    Device<unsigned> data(16);
    unsigned value = 0;
    REFUSED(hipMemcpy(nullptr, &value, 4, hipMemcpyHostToDevice), hipErrorInvalidValue);
    REFUSED(hipMemcpy(data, nullptr, 4, hipMemcpyHostToDevice), hipErrorInvalidValue);
    REFUSED(hipMemcpy(data, &value, 4, static_cast<hipMemcpyKind>(77)), hipErrorInvalidMemcpyDirection);
    OK(hipMemcpy(data, &value, 0, hipMemcpyHostToDevice));
}

CASE(copies_and_kernels_of_one_stream_keep_their_order) {
    Device<unsigned> data(COUNT);
    Pinned<unsigned> from(COUNT, 3), to(COUNT, 0);
    Stream stream(hipStreamNonBlocking);
    OK(hipMemcpyAsync(data, from, data.bytes(), hipMemcpyHostToDevice, stream));
    affine(stream, data, COUNT, 10, 1);
    OK(hipMemcpyAsync(to, data, data.bytes(), hipMemcpyDeviceToHost, stream));
    affine(stream, data, COUNT, 0, 0);
    OK(hipStreamSynchronize(stream));
    REQUIRE(to.holds(31));
}

CASE(a_synchronous_copy_waits_for_blocking_streams) {
    Device<unsigned> data(COUNT, 1);
    std::vector<unsigned> host(COUNT);
    Stream stream;
    Gate gate(stream);
    affine(stream, data, COUNT, 0, 2);
    Pending copied([&] { return hipMemcpy(host.data(), data, data.bytes(), hipMemcpyDeviceToHost); });
    bool blocked = copied.blocks();
    gate.open();
    OK(copied.code());
    REQUIRE(blocked);
    REQUIRE(host == std::vector<unsigned>(COUNT, 2));
}

CASE(a_synchronous_copy_to_the_device_waits) {
    Device<unsigned> data(COUNT, 0);
    auto values = ramp();
    Stream stream;
    REQUIRE(waits(stream, [&] { return hipMemcpy(data, values.data(), data.bytes(), hipMemcpyHostToDevice); }));
}

CASE(a_synchronous_copy_of_pinned_memory_waits) {
    Device<unsigned> data(COUNT, 4);
    Pinned<unsigned> host(COUNT);
    Stream stream;
    REQUIRE(waits(stream, [&] { return hipMemcpy(host, data, data.bytes(), hipMemcpyDeviceToHost); }));
    REQUIRE(host.holds(4));
}

CASE(a_copy_within_the_device_does_not_wait) {
    if (suite::runtime_major() < 6) suite::skip("releases before 6 differ");
    Device<unsigned> from(COUNT, 9), to(COUNT, 0);
    Stream stream;
    REQUIRE(comes_back(stream, [&] { return hipMemcpy(to, from, from.bytes(), hipMemcpyDeviceToDevice); }));
    REQUIRE(to.holds(9));
}

CASE(a_copy_does_not_wait_for_non_blocking_streams) {
    Device<unsigned> data(COUNT, 6);
    std::vector<unsigned> host(COUNT);
    Stream stream(hipStreamNonBlocking);
    REQUIRE(comes_back(stream, [&] { return hipMemcpy(host.data(), data, data.bytes(), hipMemcpyDeviceToHost); }));
    REQUIRE(host == std::vector<unsigned>(COUNT, 6));
}

CASE(an_asynchronous_copy_to_pinned_memory_does_not_wait) {
    Device<unsigned> data(COUNT, 8);
    Pinned<unsigned> host(COUNT, 0);
    Stream stream;
    REQUIRE(comes_back(
        stream, [&] { return hipMemcpyAsync(host, data, data.bytes(), hipMemcpyDeviceToHost, stream); }));
    OK(hipStreamSynchronize(stream));
    REQUIRE(host.holds(8));
}

CASE(an_asynchronous_copy_from_pinned_memory_does_not_wait) {
    Device<unsigned> data(COUNT, 0);
    Pinned<unsigned> host(COUNT, 8);
    Stream stream;
    REQUIRE(comes_back(
        stream, [&] { return hipMemcpyAsync(data, host, data.bytes(), hipMemcpyHostToDevice, stream); }));
    REQUIRE(data.holds(8));
}

CASE(an_asynchronous_copy_to_pageable_memory_waits) {
    Device<unsigned> data(COUNT, 8);
    std::vector<unsigned> host(COUNT);
    Stream stream;
    REQUIRE(waits(
        stream, [&] { return hipMemcpyAsync(host.data(), data, data.bytes(), hipMemcpyDeviceToHost, stream); }));
    REQUIRE(host == std::vector<unsigned>(COUNT, 8));
}

CASE(pageable_memory_may_change_once_the_call_is_back) {
    Device<unsigned> data(COUNT, 0);
    std::vector<unsigned> host(COUNT, 5);
    Stream stream;
    {
        Gate gate(stream);
        Pending copied(
            [&] { return hipMemcpyAsync(data, host.data(), data.bytes(), hipMemcpyHostToDevice, stream); });
        // It returns once the data are staged, in some releases only after the copy is done.
        if (copied.blocks()) gate.open();
        OK(copied.code());
        std::fill(host.begin(), host.end(), 6);
    }
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(5));
}

CASE(a_large_pageable_copy_arrives_whole) {
    constexpr unsigned LARGE = 24u << 20;
    std::vector<unsigned> host(LARGE / 4);
    std::iota(host.begin(), host.end(), 0u);
    Device<unsigned> data(LARGE / 4);
    Stream stream;
    OK(hipMemcpyAsync(data, host.data(), LARGE, hipMemcpyHostToDevice, stream));
    // The runtime waits if it does not stage, so the source may change in both cases.
    std::fill(host.begin(), host.end(), 0u);
    OK(hipMemcpyAsync(host.data(), data, LARGE, hipMemcpyDeviceToHost, stream));
    OK(hipStreamSynchronize(stream));
    for (unsigned i : {0u, 1u, LARGE / 8, LARGE / 4 - 1}) EQUAL(host[i], i);
}

CASE(a_copy_with_a_stream_waits_for_it) {
    Device<unsigned> data(COUNT, 8);
    Pinned<unsigned> host(COUNT, 0);
    Stream stream;
    REQUIRE(waits(
        stream, [&] { return hipMemcpyWithStream(host, data, data.bytes(), hipMemcpyDeviceToHost, stream); }));
    REQUIRE(host.holds(8));
}

CASE(rows_of_a_rectangle_are_copied) {
    constexpr size_t WIDTH = 40, HEIGHT = 6, HOST_PITCH = 64;
    void *device = nullptr;
    size_t pitch = 0;
    OK(hipMallocPitch(&device, &pitch, WIDTH, HEIGHT));
    REQUIRE(pitch >= WIDTH);
    std::vector<unsigned char> from(HOST_PITCH * HEIGHT), to(HOST_PITCH * HEIGHT, 0xee);
    std::iota(from.begin(), from.end(), 0);
    OK(hipMemcpy2D(device, pitch, from.data(), HOST_PITCH, WIDTH, HEIGHT, hipMemcpyHostToDevice));
    OK(hipMemcpy2D(to.data(), HOST_PITCH, device, pitch, WIDTH, HEIGHT, hipMemcpyDeviceToHost));
    for (size_t y = 0; y < HEIGHT; y++) {
        REQUIRE(std::memcmp(&to[y * HOST_PITCH], &from[y * HOST_PITCH], WIDTH) == 0);
        EQUAL(int(to[y * HOST_PITCH + WIDTH]), 0xee);
    }
    OK(hipFree(device));
}

CASE(a_rectangle_wider_than_its_pitch_is_refused) {
    Device<unsigned char> data(1024);
    std::vector<unsigned char> host(1024);
    REFUSED(hipMemcpy2D(data, 16, host.data(), 32, 32, 4, hipMemcpyHostToDevice), hipErrorInvalidValue,
            hipErrorInvalidPitchValue);
    REFUSED(hipMemcpy2D(data, 32, host.data(), 16, 32, 4, hipMemcpyHostToDevice), hipErrorInvalidValue,
            hipErrorInvalidPitchValue);
}

CASE(an_asynchronous_rectangle_keeps_its_order) {
    constexpr size_t PITCH = 64, WIDTH = 16, HEIGHT = 4;
    Device<unsigned char> data(PITCH * HEIGHT, 1);
    Pinned<unsigned char> host(PITCH * HEIGHT, 0);
    Stream stream;
    {
        Gate gate(stream);
        OK(hipMemcpy2DAsync(host, PITCH, data, PITCH, WIDTH, HEIGHT, hipMemcpyDeviceToHost, stream));
        EQUAL(int(host[0]), 0);
    }
    OK(hipStreamSynchronize(stream));
    EQUAL(int(host[WIDTH - 1]), 1);
    EQUAL(int(host[WIDTH]), 0);
    EQUAL(int(host[3 * PITCH]), 1);
}

CASE(a_box_is_copied) {
    constexpr size_t WIDTH = 16, HEIGHT = 3, DEPTH = 2;
    hipPitchedPtr device = {};
    OK(hipMalloc3D(&device, make_hipExtent(WIDTH, HEIGHT, DEPTH)));
    std::vector<unsigned char> from(WIDTH * HEIGHT * DEPTH), to(WIDTH * HEIGHT * DEPTH);
    std::iota(from.begin(), from.end(), 1);
    hipMemcpy3DParms in = {};
    in.srcPtr = make_hipPitchedPtr(from.data(), WIDTH, WIDTH, HEIGHT);
    in.dstPtr = device;
    in.extent = make_hipExtent(WIDTH, HEIGHT, DEPTH);
    in.kind = hipMemcpyHostToDevice;
    OK(hipMemcpy3D(&in));
    hipMemcpy3DParms out = {};
    out.srcPtr = device;
    out.dstPtr = make_hipPitchedPtr(to.data(), WIDTH, WIDTH, HEIGHT);
    out.extent = in.extent;
    out.kind = hipMemcpyDeviceToHost;
    OK(hipMemcpy3D(&out));
    REQUIRE(to == from);
    OK(hipFree(device.ptr));
}

CASE(a_copy_between_peers_on_one_device_is_a_copy) {
    Device<unsigned> from(COUNT, 3), to(COUNT, 0);
    OK(hipMemcpyPeer(to, 0, from, 0, from.bytes()));
    REQUIRE(to.holds(3));
}

// `hipMemcpyAttributes`, which headers of older releases lack.
struct BatchAttributes {
    unsigned order;
    int from[2], to[2];
    unsigned flags;
};

// `hipMemcpy3DBatchOp`, likewise.
struct BatchOperand {
    unsigned kind;
    const void *place;
    size_t lengths[3];
};
struct BatchBox {
    BatchOperand from, to;
    size_t extent[3];
    unsigned order, flags;
};

CASE(the_boxes_of_a_batch_are_copied_in_stream_order) {
    constexpr unsigned MEMORY = 1, ORDER_OF_STREAM = 1;
    auto copy = suite::find<hipError_t(size_t, BatchBox *, size_t *, unsigned long long, hipStream_t)>(
        "hipMemcpy3DBatchAsync");
    // Two rows of four words, from the middle of rows of eight.
    constexpr size_t ROW = 16, PITCH = 32;
    Device<unsigned> data(16, 0);
    Pinned<unsigned> source(16, 7), found(8, 0);
    Stream stream;
    Gate gate(stream);
    BatchOperand from = {MEMORY, source + 2, {PITCH, 0, 0}}, middle = {MEMORY, data + 2, {PITCH, 0, 0}},
                 to = {MEMORY, found, {0, 0, 0}};
    BatchBox boxes[] = {{from, middle, {ROW, 2, 1}, ORDER_OF_STREAM, 0},
                        {middle, to, {ROW, 2, 1}, ORDER_OF_STREAM, 0}};
    size_t failed = 77;
    OK(copy(2, boxes, &failed, 0, stream));
    EQUAL(failed, size_t(77));
    // They belong to the caller again as soon as the call has returned.
    std::memset(static_cast<void *>(boxes), 0x5a, sizeof boxes);
    EQUAL(found[0], 0u);
    gate.open();
    OK(hipStreamSynchronize(stream));
    REQUIRE(found.holds(7));
    BatchBox bad[] = {{from, middle, {ROW, 2, 1}, 0, 0}};
    REFUSED(copy(1, bad, &failed, 0, stream), hipErrorInvalidValue);
    EQUAL(failed, size_t(0));
}

CASE(the_copies_of_a_batch_run_in_stream_order) {
    constexpr unsigned ORDER_OF_STREAM = 1;
    auto copy = suite::find<hipError_t(void **, void **, size_t *, size_t, BatchAttributes *, size_t *, size_t,
                                       size_t *, hipStream_t)>("hipMemcpyBatchAsync");
    Device<unsigned> data(64, 0);
    Pinned<unsigned> source(64, 7), found(64, 0);
    Stream stream;
    Gate gate(stream);
    void *to[2] = {data, data + 32}, *from[2] = {source, source + 32};
    size_t sizes[2] = {128, 128}, begins[1] = {0}, failed = 0;
    BatchAttributes attributes = {ORDER_OF_STREAM, {}, {}, 0};
    OK(copy(to, from, sizes, 2, &attributes, begins, 1, &failed, stream));
    // They belong to the caller again as soon as the call has returned.
    std::memset(to, 0x5a, sizeof to);
    std::memset(from, 0x5a, sizeof from);
    std::memset(sizes, 0x5a, sizeof sizes);
    OK(hipMemcpyAsync(found, data, 256, hipMemcpyDeviceToHost, stream));
    EQUAL(found[63], 0u);
    gate.open();
    OK(hipStreamSynchronize(stream));
    REQUIRE(found.holds(7));
}
