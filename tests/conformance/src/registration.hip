// Registrations by compiled code when the program starts: kernels, their arguments, variables.

#define AREA "registration"

#include "arguments.h"
#include "device.hpp"
#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

extern "C" __global__ void conf_record(Record record, Seen *seen) {
    seen->weight = record.weight;
    long long sum = record.tag + record.shift * 10LL + record.end * 100LL;
    for (int i = 0; i < 5; i++) sum += record.values[i] * 1000LL * (i + 1);
    seen->sum = sum;
}

extern "C" __global__ void conf_mixed(char a, double b, short c, float d, long long e, bool f, double *out) {
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
    out[4] = static_cast<double>(e);
    out[5] = f ? 1 : 0;
}

extern "C" __global__ void conf_nothing() {}

template <typename T> __global__ void conf_scale(T *data, T factor) { data[global_thread()] *= factor; }

namespace {
// launch.hip has another struct and another kernel with these names.
struct Local {
    unsigned *out;
    unsigned value;
};
} // namespace
static __global__ void conf_local(Local local) { local.out[0] = local.value; }

__device__ unsigned conf_variable[4] = {1, 2, 3, 4};
__device__ unsigned conf_zeroed[1000];
__constant__ double conf_constant = 2.5;
__managed__ unsigned conf_managed = 7;

CASE(a_kernel_writes_its_results) {
    Device<unsigned> data(1000, 3);
    affine(nullptr, data, 1000, 10, 4);
    OK(hipGetLastError());
    REQUIRE(data.holds(34));
}

CASE(threads_beyond_the_last_block_are_not_missing) {
    Device<unsigned> data(1001, 1);
    affine(nullptr, data, 1001, 1, 1);
    REQUIRE(data.holds(2));
}

CASE(a_struct_arrives_whole) {
    Record record = {3, 0.125, -7, {1, 2, 3, 4, 4000000000u}, 9};
    Device<Seen> seen(1);
    conf_record<<<1, 1>>>(record, seen);
    OK(hipGetLastError());
    Seen found = seen.read()[0];
    EQUAL(found.weight, 0.125);
    EQUAL(found.sum, sum_of(&record));
}

CASE(arguments_of_every_size_arrive) {
    Device<double> out(6);
    conf_mixed<<<1, 1>>>(-5, 0.5, -300, 1.25f, 1LL << 40, true, out);
    OK(hipGetLastError());
    REQUIRE(out.read() == (std::vector<double>{-5, 0.5, -300, 1.25, 1099511627776.0, 1}));
}

CASE(a_kernel_without_arguments_runs) {
    conf_nothing<<<3, 5>>>();
    OK(hipGetLastError());
    OK(hipDeviceSynchronize());
}

CASE(arguments_are_read_before_the_launch_returns) {
    Device<unsigned> data(64, 0);
    unsigned *address = data;
    unsigned count = 64, factor = 1, term = 5;
    void *arguments[] = {&address, &count, &factor, &term};
    Stream stream;
    OK(hipLaunchKernel(affine_kernel(), dim3(1), dim3(64), arguments, 0, stream));
    // The caller may reuse all of it at once.
    address = nullptr;
    count = factor = term = 0;
    arguments[0] = arguments[1] = nullptr;
    REQUIRE(data.holds(5));
}

CASE(instances_of_a_template_are_kernels_of_their_own) {
    Device<unsigned> whole(64, 21);
    Device<float> real(64, 1.5f);
    conf_scale<<<1, 64>>>(static_cast<unsigned *>(whole), 2u);
    conf_scale<<<1, 64>>>(static_cast<float *>(real), 3.0f);
    REQUIRE(whole.holds(42));
    REQUIRE(real.holds(4.5f));
}

void launch_other_local_kernel(unsigned *out);

CASE(static_kernels_of_one_name_stay_apart) {
    Device<unsigned> mine(1, 0), other(1, 0);
    conf_local<<<1, 1>>>(Local{mine, 1});
    launch_other_local_kernel(other);
    EQUAL(mine.read()[0], 1u);
    EQUAL(other.read()[0], 9u);
}

CASE(a_kernel_that_was_not_registered_is_error_98) {
    static int no_kernel;
    void *arguments[] = {nullptr};
    hipError_t code = hipLaunchKernel(&no_kernel, dim3(1), dim3(1), arguments, 0, nullptr);
    REFUSED(code, hipErrorInvalidDeviceFunction);
    EQUAL(static_cast<int>(code), 98);
    EQUAL(hipGetLastError(), hipErrorInvalidDeviceFunction);
}

CASE(no_kernel_at_all_is_refused) {
    void *arguments[] = {nullptr};
    REFUSED(hipLaunchKernel(nullptr, dim3(1), dim3(1), arguments, 0, nullptr), hipErrorInvalidDeviceFunction,
            hipErrorInvalidValue);
}

CASE(variables_begin_with_their_initial_values) {
    unsigned found[4] = {};
    OK(hipMemcpyFromSymbol(found, HIP_SYMBOL(conf_variable), sizeof found));
    for (unsigned i = 0; i < 4; i++) EQUAL(found[i], i + 1);
    std::vector<unsigned> zeroed(1000, 9);
    OK(hipMemcpyFromSymbol(zeroed.data(), HIP_SYMBOL(conf_zeroed), 4000));
    REQUIRE(zeroed == std::vector<unsigned>(1000));
    double constant = 0;
    OK(hipMemcpyFromSymbol(&constant, HIP_SYMBOL(conf_constant), sizeof constant));
    EQUAL(constant, 2.5);
}

CASE(a_variable_is_written_in_part) {
    unsigned value = 30, found[4] = {};
    OK(hipMemcpyToSymbol(HIP_SYMBOL(conf_variable), &value, sizeof value, 8));
    OK(hipMemcpyFromSymbol(found, HIP_SYMBOL(conf_variable), sizeof found));
    EQUAL(found[1], 2u);
    EQUAL(found[2], 30u);
    EQUAL(found[3], 4u);
}

CASE(a_variable_is_copied_in_stream_order) {
    Pinned<unsigned> source(4, 9), found(4, 0);
    Stream stream;
    Gate gate(stream);
    OK(hipMemcpyToSymbolAsync(HIP_SYMBOL(conf_variable), source, source.bytes(), 0, hipMemcpyHostToDevice, stream));
    OK(hipMemcpyFromSymbolAsync(found, HIP_SYMBOL(conf_variable), found.bytes(), 0, hipMemcpyDeviceToHost, stream));
    EQUAL(found[3], 0u);
    gate.open();
    OK(hipStreamSynchronize(stream));
    REQUIRE(found.holds(9));
}

CASE(a_variable_ends_where_it_ends) {
    unsigned values[5] = {};
    REFUSED(hipMemcpyToSymbol(HIP_SYMBOL(conf_variable), values, sizeof values), hipErrorInvalidValue);
    REFUSED(hipMemcpyFromSymbol(values, HIP_SYMBOL(conf_variable), 12, 8), hipErrorInvalidValue);
}

CASE(a_kernel_works_on_a_variable_by_its_address) {
    void *address = nullptr;
    size_t size = 0;
    OK(hipGetSymbolAddress(&address, HIP_SYMBOL(conf_variable)));
    OK(hipGetSymbolSize(&size, HIP_SYMBOL(conf_variable)));
    EQUAL(size, sizeof conf_variable);
    affine(nullptr, static_cast<unsigned *>(address), 4, 2, 0);
    unsigned found[4] = {};
    OK(hipMemcpyFromSymbol(found, HIP_SYMBOL(conf_variable), sizeof found));
    for (unsigned i = 0; i < 4; i++) EQUAL(found[i], 2 * (i + 1));
}

CASE(a_symbol_that_was_not_registered_is_refused) {
    static int no_symbol;
    void *address = nullptr;
    REFUSED(hipGetSymbolAddress(&address, &no_symbol), hipErrorInvalidSymbol, hipErrorInvalidValue);
}

CASE(a_managed_variable_is_shared) {
    int managed = 0;
    OK(hipDeviceGetAttribute(&managed, hipDeviceAttributeManagedMemory, 0));
    if (managed == 0) suite::skip("the device has no managed memory");
    EQUAL(conf_managed, 7u);
    affine(nullptr, &conf_managed, 1, 3, 1);
    OK(hipDeviceSynchronize());
    EQUAL(conf_managed, 22u);
}
