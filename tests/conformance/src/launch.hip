// Launches: geometry, local data share, and refused launches, which have no effect.

#define AREA "launch"

#include <hip/hip_ext.h>

#include <cstring>

#include "device.hpp"
#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

// Each thread of a three-dimensional grid writes its coordinates, at its own index.
extern "C" __global__ void conf_coordinates(unsigned *out) {
    unsigned size_x = __builtin_amdgcn_workgroup_size_x(), size_y = __builtin_amdgcn_workgroup_size_y(),
             size_z = __builtin_amdgcn_workgroup_size_z();
    unsigned x = __builtin_amdgcn_workgroup_id_x() * size_x + __builtin_amdgcn_workitem_id_x();
    unsigned y = __builtin_amdgcn_workgroup_id_y() * size_y + __builtin_amdgcn_workitem_id_y();
    unsigned z = __builtin_amdgcn_workgroup_id_z() * size_z + __builtin_amdgcn_workitem_id_z();
    unsigned width = __builtin_amdgcn_grid_size_x(), height = __builtin_amdgcn_grid_size_y();
    out[(z * height + y) * width + x] = x + 100 * y + 10000 * z;
}

// Each block reverses its part, through dynamic local data share.
extern "C" __global__ void conf_reverse(unsigned *data) {
    extern __shared__ unsigned shared[];
    unsigned size = block_size_x();
    shared[thread_x()] = data[global_thread()];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    data[global_thread()] = shared[size - 1 - thread_x()];
}

extern "C" __global__ __launch_bounds__(64) void conf_bounded(unsigned *data) { data[global_thread()] = 1; }

namespace {
// registration.hip has another struct and another kernel with these names.
struct Local {
    unsigned terms[3];
    unsigned *out;
};
} // namespace
static __global__ void conf_local(Local local) { local.out[0] = local.terms[0] + local.terms[2]; }
void launch_other_local_kernel(unsigned *out) { conf_local<<<1, 1>>>(Local{{4, 0, 5}, out}); }

template <typename Kernel> static const void *address(Kernel kernel) {
    return reinterpret_cast<const void *>(kernel);
}

// Launches `affine`'s kernel so that a run is visible in `data`.
static hipError_t launch(unsigned *data, dim3 grid, dim3 block, size_t lds = 0) {
    unsigned count = 64, factor = 1, term = 1;
    void *arguments[] = {&data, &count, &factor, &term};
    return hipLaunchKernel(affine_kernel(), grid, block, arguments, lds, nullptr);
}

static int attribute(hipDeviceAttribute_t name) {
    int value = 0;
    OK(hipDeviceGetAttribute(&value, name, 0));
    return value;
}

CASE(every_thread_of_three_dimensions_runs) {
    constexpr unsigned WIDTH = 3 * 4, HEIGHT = 2 * 5, DEPTH = 2 * 3;
    Device<unsigned> out(WIDTH * HEIGHT * DEPTH, 0);
    conf_coordinates<<<dim3(3, 2, 2), dim3(4, 5, 3)>>>(out);
    OK(hipGetLastError());
    auto found = out.read();
    for (unsigned z = 0, i = 0; z < DEPTH; z++)
        for (unsigned y = 0; y < HEIGHT; y++)
            for (unsigned x = 0; x < WIDTH; x++, i++) EQUAL(found[i], x + 100 * y + 10000 * z);
}

CASE(dynamic_local_data_share_is_the_blocks_own) {
    Device<unsigned> data(256);
    std::vector<unsigned> values(256), expected(256);
    for (unsigned i = 0; i < 256; i++) {
        values[i] = i;
        expected[i] = i / 64 * 64 + 63 - i % 64;
    }
    data.write(values);
    conf_reverse<<<4, 64, 64 * sizeof(unsigned)>>>(data);
    OK(hipGetLastError());
    REQUIRE(data.read() == expected);
}

CASE(the_largest_block_runs) {
    Device<unsigned> data(64, 0);
    OK(launch(data, dim3(1), dim3(attribute(hipDeviceAttributeMaxThreadsPerBlock))));
    REQUIRE(data.holds(1));
}

CASE(a_block_with_too_many_threads_is_refused) {
    Device<unsigned> data(64, 0);
    unsigned limit = attribute(hipDeviceAttributeMaxThreadsPerBlock);
    REFUSED(launch(data, dim3(1), dim3(limit, 2)), hipErrorInvalidValue, hipErrorInvalidConfiguration);
    REFUSED(launch(data, dim3(1), dim3(limit + 1)), hipErrorInvalidValue, hipErrorInvalidConfiguration);
    REQUIRE(data.holds(0));
}

CASE(a_grid_without_blocks_is_refused) {
    Device<unsigned> data(64, 0);
    for (dim3 grid : {dim3(0, 1, 1), dim3(1, 0, 1), dim3(1, 1, 0)})
        REFUSED(launch(data, grid, dim3(1)), hipErrorInvalidValue, hipErrorInvalidConfiguration);
    REQUIRE(data.holds(0));
}

CASE(a_block_without_threads_is_refused) {
    Device<unsigned> data(64, 0);
    for (dim3 block : {dim3(0, 1, 1), dim3(1, 0, 1), dim3(1, 1, 0)})
        REFUSED(launch(data, dim3(1), block), hipErrorInvalidValue, hipErrorInvalidConfiguration);
    REQUIRE(data.holds(0));
}

CASE(more_threads_than_32_bits_count_are_refused) {
    Device<unsigned> data(64, 0);
    REFUSED(launch(data, dim3(1u << 31), dim3(1024)), hipErrorInvalidConfiguration, hipErrorInvalidValue);
    REQUIRE(data.holds(0));
}

CASE(more_local_data_share_than_there_is_is_refused) {
    Device<unsigned> data(64, 0);
    REFUSED(launch(data, dim3(1), dim3(64), 16u << 20), hipErrorInvalidValue, hipErrorInvalidConfiguration,
            hipErrorOutOfMemory);
    REQUIRE(data.holds(0));
}

CASE(a_block_larger_than_the_kernel_was_compiled_for_is_refused) {
    Device<unsigned> data(128, 0);
    conf_bounded<<<1, 128>>>(data);
    REFUSED(hipGetLastError(), hipErrorLaunchFailure, hipErrorInvalidValue, hipErrorInvalidConfiguration);
    REQUIRE(data.holds(0));
    conf_bounded<<<2, 64>>>(data);
    OK(hipGetLastError());
    REQUIRE(data.holds(1));
}

CASE(after_a_refused_launch_the_next_one_runs) {
    Device<unsigned> data(64, 0);
    REFUSED(launch(data, dim3(0), dim3(1)), hipErrorInvalidValue, hipErrorInvalidConfiguration);
    OK(launch(data, dim3(1), dim3(64)));
    REQUIRE(data.holds(1));
}

CASE(a_launch_with_events_times_itself) {
    Device<unsigned> data(64, 0);
    Event start, stop;
    unsigned *out = data;
    unsigned count = 64, factor = 1, term = 1;
    void *arguments[] = {&out, &count, &factor, &term};
    OK(hipExtLaunchKernel(affine_kernel(), dim3(1), dim3(64), arguments, 0, nullptr, start, stop, 0));
    OK(hipEventSynchronize(stop));
    REQUIRE(data.holds(1));
    float ms = -1;
    OK(hipEventElapsedTime(&ms, start, stop));
    REQUIRE(ms >= 0);
}

CASE(a_stream_is_done_when_the_event_of_its_last_launch_is) {
    Stream made;
    for (hipStream_t stream : {hipStream_t(made), hipStreamPerThread}) {
        Device<unsigned> data(64, 0);
        unsigned *out = data;
        unsigned count = 64, factor = 1, term = 1;
        void *arguments[] = {&out, &count, &factor, &term};
        Event stop;
        for (int i = 0; i < 50; i++) {
            OK(hipExtLaunchKernel(affine_kernel(), dim3(1), dim3(64), arguments, 0, stream, nullptr, stop, 0));
            OK(hipEventSynchronize(stop));
            OK(hipStreamQuery(stream));
        }
        REQUIRE(data.holds(50));
    }
}

CASE(a_cooperative_launch_runs) {
    if (attribute(hipDeviceAttributeCooperativeLaunch) == 0) suite::skip("no cooperative launches");
    Device<unsigned> data(64, 0);
    unsigned *out = data;
    unsigned count = 64, factor = 1, term = 1;
    void *arguments[] = {&out, &count, &factor, &term};
    OK(hipLaunchCooperativeKernel(affine_kernel(), dim3(1), dim3(64), arguments, 0, nullptr));
    REQUIRE(data.holds(1));
}

CASE(a_cooperative_grid_that_does_not_fit_is_refused) {
    if (attribute(hipDeviceAttributeCooperativeLaunch) == 0) suite::skip("no cooperative launches");
    Device<unsigned> data(64, 0);
    unsigned *out = data;
    unsigned count = 64, factor = 1, term = 1;
    void *arguments[] = {&out, &count, &factor, &term};
    REFUSED(hipLaunchCooperativeKernel(affine_kernel(), dim3(1u << 20), dim3(1024), arguments, 0, nullptr),
            hipErrorCooperativeLaunchTooLarge);
    REQUIRE(data.holds(0));
}

// `hipLaunchAttribute` and `hipLaunchConfig_t`, which headers of older releases lack.
struct LaunchAttribute {
    unsigned id, pad;
    unsigned long long value[8];
};
struct LaunchConfig {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
    LaunchAttribute *attributes;
    unsigned count;
};

CASE(a_launch_by_configuration_looks_at_all_attributes) {
    if (attribute(hipDeviceAttributeCooperativeLaunch) == 0) suite::skip("no cooperative launches");
    constexpr unsigned COOPERATIVE = 2, PRIORITY = 8;
    auto launch = suite::find<hipError_t(LaunchConfig *, const void *, void **)>("hipLaunchKernelExC");
    Device<unsigned> data(64, 0);
    unsigned *out = data;
    unsigned count = 64, factor = 1, term = 1;
    void *arguments[] = {&out, &count, &factor, &term};
    const LaunchAttribute priority = {PRIORITY, 0, {0}}, not_so = {COOPERATIVE, 0, {0}}, so = {COOPERATIVE, 0, {1}};
    LaunchAttribute attributes[] = {priority, not_so, so};
    Stream stream;
    Gate gate(stream);
    LaunchConfig config = {dim3(1), dim3(64), 0, stream, attributes, 3};
    OK(launch(&config, affine_kernel(), arguments));
    // They belong to the caller again as soon as the call has returned.
    std::memset(static_cast<void *>(attributes), 0x5a, sizeof attributes);
    std::memset(static_cast<void *>(&config), 0x5a, sizeof config);
    gate.open();
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(1));
    LaunchAttribute again[] = {priority, not_so, so};
    config = {dim3(1u << 20), dim3(1024), 0, stream, again, 3};
    REFUSED(launch(&config, affine_kernel(), arguments), hipErrorCooperativeLaunchTooLarge);
    config = {dim3(1), dim3(64), 0, stream, again, 2};
    REFUSED(launch(&config, affine_kernel(), arguments), hipErrorInvalidConfiguration);
    config.count = 0;
    OK(launch(&config, affine_kernel(), arguments));
    OK(hipStreamSynchronize(stream));
    REQUIRE(data.holds(2));
}

CASE(a_configured_call_is_launched_by_its_address) {
    Device<unsigned> data(64, 0);
    OK(hipConfigureCall(dim3(1), dim3(64), 0, nullptr));
    unsigned *out = data;
    unsigned count = 64, factor = 1, term = 6;
    OK(hipSetupArgument(&out, sizeof out, 0));
    OK(hipSetupArgument(&count, sizeof count, 8));
    OK(hipSetupArgument(&factor, sizeof factor, 12));
    OK(hipSetupArgument(&term, sizeof term, 16));
    OK(hipLaunchByPtr(affine_kernel()));
    REQUIRE(data.holds(6));
}

CASE(a_kernel_and_its_function_are_the_same) {
    auto function_of = suite::find<hipError_t(hipFunction_t *, const void *)>("hipGetFuncBySymbol");
    hipFunction_t function = nullptr;
    OK(function_of(&function, affine_kernel()));
    Device<unsigned> data(64, 0);
    unsigned *out = data;
    unsigned count = 64, factor = 1, term = 8;
    void *arguments[] = {&out, &count, &factor, &term};
    OK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    REQUIRE(data.holds(8));
}

CASE(occupancy_knows_the_limits_of_a_kernel) {
    int blocks = 0;
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, address(conf_bounded), 64, 0));
    REQUIRE(blocks > 0);
    int grid = 0, block = 0;
    OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, address(conf_bounded), 0, 0));
    REQUIRE(grid > 0 && block > 0 && block <= 64);
    hipFuncAttributes attributes = {};
    OK(hipFuncGetAttributes(&attributes, address(conf_bounded)));
    REQUIRE(attributes.maxThreadsPerBlock >= 64 && attributes.maxThreadsPerBlock < 1024);
}
