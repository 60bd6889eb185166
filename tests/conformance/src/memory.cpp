// Allocations of each kind: their results, queries of addresses, and what freeing waits for.

#define AREA "memory"

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

constexpr size_t MIB = 1 << 20;

// From 6.0 on the enumeration has other values than in earlier headers.
bool headers_fit() { return suite::runtime_major() >= 6 == HIP_VERSION_MAJOR >= 6; }

// The member was renamed in 6.0.
template <typename Attributes> hipMemoryType type_of(const Attributes &attributes) {
    if constexpr (requires { attributes.type; })
        return attributes.type;
    else
        return attributes.memoryType;
}

} // namespace

CASE(nothing_is_allocated_at_no_address) {
    void *address = &address;
    OK(hipMalloc(&address, 0));
    REQUIRE(address == nullptr);
    OK(hipFree(nullptr));
    OK(hipHostFree(nullptr));
}

CASE(a_null_out_parameter_is_refused) {
    REFUSED(hipMalloc(nullptr, 16), hipErrorInvalidValue);
    REFUSED(hipHostMalloc(static_cast<void **>(nullptr), 16, 0), hipErrorInvalidValue);
}

CASE(more_memory_than_there_is_is_refused) {
    void *address = nullptr;
    size_t free = 0, total = 0;
    OK(hipMemGetInfo(&free, &total));
    REFUSED(hipMalloc(&address, total * 2), hipErrorOutOfMemory);
    (void)hipGetLastError();
    Device<unsigned> data(64, 1);
    REQUIRE(data.holds(1));
}

CASE(free_memory_shrinks_and_grows) {
    size_t before = 0, during = 0, after = 0, total = 0;
    OK(hipMemGetInfo(&before, &total));
    REQUIRE(before <= total);
    void *address = nullptr;
    OK(hipMalloc(&address, 256 * MIB));
    OK(hipMemGetInfo(&during, &total));
    OK(hipFree(address));
    OK(hipMemGetInfo(&after, &total));
    REQUIRE(during + 200 * MIB <= before);
    REQUIRE(after >= during + 200 * MIB);
}

CASE(allocations_do_not_overlap) {
    std::vector<char *> addresses;
    for (int i = 0; i < 50; i++) {
        void *address = nullptr;
        OK(hipMalloc(&address, 1000));
        EQUAL(reinterpret_cast<uintptr_t>(address) % 256, 0u);
        for (char *other : addresses) REQUIRE(address >= other + 1000 || other >= (char *)address + 1000);
        addresses.push_back(static_cast<char *>(address));
    }
    for (char *address : addresses) OK(hipFree(address));
}

CASE(a_second_free_is_refused) {
    void *address = nullptr;
    OK(hipMalloc(&address, 64));
    OK(hipFree(address));
    REFUSED(hipFree(address), hipErrorInvalidValue);
    int local = 0;
    REFUSED(hipFree(&local), hipErrorInvalidValue);
}

CASE(freeing_waits_for_every_stream) {
    void *address = nullptr;
    OK(hipMalloc(&address, 64));
    Device<unsigned> data(64, 0);
    Stream stream(hipStreamNonBlocking);
    Gate gate(stream);
    affine(stream, data, 64, 1, 1);
    Pending freed([&] { return hipFree(address); });
    bool blocked = freed.blocks();
    gate.open();
    OK(freed.code());
    REQUIRE(blocked);
    OK(hipStreamQuery(stream));
}

CASE(pinned_memory_is_read_and_written_by_kernels) {
    Pinned<unsigned> host(64, 4);
    void *device = nullptr;
    OK(hipHostGetDevicePointer(&device, host, 0));
    affine(nullptr, static_cast<unsigned *>(device), 64, 3, 1);
    OK(hipDeviceSynchronize());
    REQUIRE(host.holds(13));
}

CASE(flags_of_pinned_memory_are_read_back) {
    void *host = nullptr;
    unsigned flags = 0;
    OK(hipHostMalloc(&host, 64, hipHostMallocPortable | hipHostMallocMapped));
    OK(hipHostGetFlags(&flags, host));
    REQUIRE((flags & hipHostMallocPortable) != 0);
    OK(hipHostFree(host));
}

CASE(registered_memory_is_pinned_until_it_is_not) {
    std::vector<unsigned> host(4096, 2);
    size_t bytes = host.size() * sizeof(unsigned);
    OK(hipHostRegister(host.data(), bytes, hipHostRegisterDefault));
    REFUSED(hipHostRegister(host.data(), bytes, hipHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered,
            hipErrorInvalidValue);
    void *device = nullptr;
    OK(hipHostGetDevicePointer(&device, host.data(), 0));
    affine(nullptr, static_cast<unsigned *>(device), 4096, 5, 0);
    OK(hipDeviceSynchronize());
    REQUIRE(host == std::vector<unsigned>(4096, 10));
    OK(hipHostUnregister(host.data()));
    REFUSED(hipHostUnregister(host.data()), hipErrorHostMemoryNotRegistered, hipErrorInvalidValue);
}

CASE(an_address_range_is_known_from_within) {
    Device<unsigned> data(1000);
    hipDeviceptr_t base = nullptr;
    size_t size = 0;
    OK(hipMemGetAddressRange(&base, &size, reinterpret_cast<hipDeviceptr_t>(data + 500)));
    REQUIRE(base == static_cast<unsigned *>(data));
    EQUAL(size, 4000u);
}

CASE(attributes_of_addresses_tell_them_apart) {
    if (!headers_fit()) suite::skip("compiled with headers whose memory types have other values");
    Device<unsigned> device(64);
    Pinned<unsigned> host(64);
    hipPointerAttribute_t attributes = {};
    OK(hipPointerGetAttributes(&attributes, device + 5));
    EQUAL(type_of(attributes), hipMemoryTypeDevice);
    EQUAL(attributes.device, 0);
    REQUIRE(attributes.devicePointer == device + 5);
    OK(hipPointerGetAttributes(&attributes, host));
    EQUAL(type_of(attributes), hipMemoryTypeHost);
    REQUIRE(attributes.hostPointer == static_cast<unsigned *>(host));
}

CASE(an_unknown_address_has_no_attributes) {
    int local = 0;
    hipPointerAttribute_t attributes = {};
    hipError_t code = hipPointerGetAttributes(&attributes, &local);
    if (suite::runtime_major() < 6)
        REFUSED(code, hipErrorInvalidValue);
    else
        OK(code);
}

CASE(managed_memory_is_the_hosts_and_the_devices) {
    int managed = 0;
    OK(hipDeviceGetAttribute(&managed, hipDeviceAttributeManagedMemory, 0));
    if (managed == 0) suite::skip("the device has no managed memory");
    void *address = nullptr;
    OK(hipMallocManaged(&address, 256, hipMemAttachGlobal));
    auto *data = static_cast<unsigned *>(address);
    for (unsigned i = 0; i < 64; i++) data[i] = i;
    affine(nullptr, data, 64, 2, 1);
    OK(hipDeviceSynchronize());
    EQUAL(data[63], 127u);
    OK(hipFree(address));
}

CASE(memory_of_a_stream_comes_and_goes_in_its_order) {
    Stream stream;
    void *address = nullptr;
    Pinned<unsigned> host(64, 0);
    OK(hipMallocAsync(&address, 256, stream));
    OK(hipMemsetAsync(address, 0, 256, stream));
    affine(stream, static_cast<unsigned *>(address), 64, 1, 8);
    OK(hipMemcpyAsync(host, address, 256, hipMemcpyDeviceToHost, stream));
    OK(hipFreeAsync(address, stream));
    OK(hipStreamSynchronize(stream));
    REQUIRE(host.holds(8));
}

CASE(freeing_in_a_stream_does_not_wait) {
    Stream stream, other(hipStreamNonBlocking);
    void *address = nullptr;
    OK(hipMallocAsync(&address, 256, stream));
    OK(hipStreamSynchronize(stream));
    Gate gate(stream);
    Pending freed([&] { return hipFreeAsync(address, stream); });
    bool returned = freed.returns();
    gate.open();
    OK(freed.code());
    REQUIRE(returned);
}

CASE(a_second_stream_ordered_free_is_refused) {
    Stream stream(hipStreamNonBlocking), other(hipStreamNonBlocking);
    for (int i = 0; i < 50; i++) {
        void *address = nullptr;
        OK(hipMallocAsync(&address, 256, stream));
        OK(hipFreeAsync(address, stream));
        REFUSED(hipFreeAsync(address, i % 2 ? stream : other), hipErrorInvalidValue);
    }
}

CASE(a_device_has_a_default_pool) {
    hipMemPool_t pool = nullptr, current = nullptr;
    OK(hipDeviceGetDefaultMemPool(&pool, 0));
    OK(hipDeviceGetMemPool(&current, 0));
    REQUIRE(pool != nullptr && pool == current);
    Stream stream;
    void *address = nullptr;
    OK(hipMallocFromPoolAsync(&address, 4096, pool, stream));
    OK(hipStreamSynchronize(stream));
    unsigned long long used = 0;
    OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    REQUIRE(used >= 4096);
    OK(hipFreeAsync(address, stream));
    OK(hipStreamSynchronize(stream));
}
