// Devices: their number, the current one, their properties.

#define AREA "devices"

#include <cstring>

#include "gate.hpp"
#include "memory.hpp"

static int count() {
    int devices = 0;
    OK(hipGetDeviceCount(&devices));
    return devices;
}

CASE(the_first_device_is_current) {
    int device = -1;
    OK(hipInit(0));
    REQUIRE(count() >= 1);
    OK(hipGetDevice(&device));
    EQUAL(device, 0);
}

CASE(devices_that_are_not_there_are_refused) {
    REFUSED(hipSetDevice(count()), hipErrorInvalidDevice);
    REFUSED(hipSetDevice(-1), hipErrorInvalidDevice);
    int device = -1;
    OK(hipGetDevice(&device));
    EQUAL(device, 0);
    hipDevice_t handle = 0;
    REFUSED(hipDeviceGet(&handle, count()), hipErrorInvalidDevice);
    REFUSED(hipGetDeviceCount(nullptr), hipErrorInvalidValue);
    int value = 0;
    REFUSED(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, count()), hipErrorInvalidDevice);
}

CASE(the_current_device_is_a_threads_own) {
    if (count() < 2) suite::skip("one device only");
    OK(hipSetDevice(1));
    int theirs = -1, mine = -1;
    std::thread([&] { OK(hipGetDevice(&theirs)); }).join();
    OK(hipGetDevice(&mine));
    EQUAL(mine, 1);
    EQUAL(theirs, 0);
}

CASE(properties_and_attributes_agree) {
    hipDeviceProp_t properties = {};
    OK(hipGetDeviceProperties(&properties, 0));
    auto attribute = [](hipDeviceAttribute_t name) {
        int value = -1;
        OK(hipDeviceGetAttribute(&value, name, 0));
        return value;
    };
    EQUAL(attribute(hipDeviceAttributeMaxThreadsPerBlock), properties.maxThreadsPerBlock);
    EQUAL(attribute(hipDeviceAttributeWarpSize), properties.warpSize);
    EQUAL(attribute(hipDeviceAttributeMultiprocessorCount), properties.multiProcessorCount);
    EQUAL(attribute(hipDeviceAttributeClockRate), properties.clockRate);
    EQUAL(static_cast<size_t>(attribute(hipDeviceAttributeMaxSharedMemoryPerBlock)), properties.sharedMemPerBlock);
    EQUAL(attribute(hipDeviceAttributePciBusId), properties.pciBusID);
    size_t memory = 0, free = 0, total = 0;
    OK(hipDeviceTotalMem(&memory, 0));
    EQUAL(memory, properties.totalGlobalMem);
    OK(hipMemGetInfo(&free, &total));
    EQUAL(total, memory);
    REQUIRE(std::strncmp(properties.gcnArchName, "gfx", 3) == 0);
    char name[256] = {};
    OK(hipDeviceGetName(name, sizeof name, 0));
    EQUAL(std::string(name), std::string(properties.name));
}

CASE(a_device_is_found_by_its_pci_address) {
    char address[32] = {};
    int device = -1;
    OK(hipDeviceGetPCIBusId(address, sizeof address, 0));
    OK(hipDeviceGetByPCIBusId(&device, address));
    EQUAL(device, 0);
    REFUSED(hipDeviceGetByPCIBusId(&device, "ffff:ff:1f.7"), hipErrorInvalidDevice, hipErrorInvalidValue);
}

CASE(a_device_is_no_peer_of_itself) {
    int can = -1;
    OK(hipDeviceCanAccessPeer(&can, 0, 0));
    EQUAL(can, 0);
    REFUSED(hipDeviceCanAccessPeer(&can, 0, count()), hipErrorInvalidDevice);
    REFUSED(hipDeviceEnablePeerAccess(count(), 0), hipErrorInvalidDevice);
}

CASE(peers_are_enabled_once) {
    if (count() < 2) suite::skip("one device only");
    int can = 0;
    OK(hipDeviceCanAccessPeer(&can, 0, 1));
    if (can == 0) suite::skip("the devices are not peers");
    OK(hipDeviceEnablePeerAccess(1, 0));
    REFUSED(hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
    OK(hipDeviceDisablePeerAccess(1));
    REFUSED(hipDeviceDisablePeerAccess(1), hipErrorPeerAccessNotEnabled);
}

CASE(memory_of_one_device_is_copied_to_another) {
    if (count() < 2) suite::skip("one device only");
    Device<unsigned> here(64, 3);
    OK(hipSetDevice(1));
    Device<unsigned> there(64, 0);
    OK(hipMemcpyPeer(there, 1, here, 0, here.bytes()));
    REQUIRE(there.holds(3));
}

CASE(versions_are_sane) {
    int runtime = 0, driver = 0;
    OK(hipRuntimeGetVersion(&runtime));
    OK(hipDriverGetVersion(&driver));
    REQUIRE(runtime >= 40000000);
    EQUAL(runtime, driver);
}

CASE(flags_of_a_device_are_read_back) {
    unsigned flags = 0;
    OK(hipSetDeviceFlags(hipDeviceScheduleBlockingSync));
    OK(hipGetDeviceFlags(&flags));
    EQUAL(flags & hipDeviceScheduleMask, static_cast<unsigned>(hipDeviceScheduleBlockingSync));
    REFUSED(hipSetDeviceFlags(0x7), hipErrorInvalidValue);
}

CASE(the_primary_context_belongs_to_the_device) {
    hipCtx_t context = nullptr;
    OK(hipDevicePrimaryCtxRetain(&context, 0));
    REQUIRE(context != nullptr);
    unsigned flags = 0;
    int active = 0;
    OK(hipDevicePrimaryCtxGetState(0, &flags, &active));
    OK(hipDevicePrimaryCtxRelease(0));
}

CASE(a_reset_device_works_afterwards) {
    { Device<unsigned> data(64, 1); }
    OK(hipDeviceReset());
    Device<unsigned> data(64, 2);
    REQUIRE(data.holds(2));
}

CASE(functions_are_found_by_name) {
    auto find = suite::find<hipError_t(const char *, void **, int, uint64_t, void *)>("hipGetProcAddress");
    void *address = nullptr;
    int version = suite::runtime_major() * 100;
    int status = -1;
    OK(find("hipGetDeviceCount", &address, version, 0, &status));
    int devices = 0;
    OK(reinterpret_cast<hipError_t (*)(int *)>(address)(&devices));
    EQUAL(devices, count());
    REFUSED(find("hipNoSuchFunction", &address, version, 0, &status), hipErrorNotFound, hipErrorInvalidValue);
}
