// Modules: code objects that the program loads itself, and launches with both ways of passing arguments.

#define AREA "modules"

#include <hip/hip_ext.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gate.hpp"
#include "memory.hpp"

namespace {

std::string path_of(const char *name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "modules" / name;
}

std::vector<char> file(const char *name) {
    std::ifstream stream(path_of(name), std::ios::binary);
    if (!stream) suite::skip(std::string("not built: ") + name);
    return std::vector<char>(std::istreambuf_iterator<char>(stream), {});
}

struct Module {
    hipModule_t module = nullptr;
    hipFunction_t affine = nullptr;

    explicit Module(const char *name = "module.co") {
        auto image = file(name);
        OK(hipModuleLoadData(&module, image.data()));
        OK(hipModuleGetFunction(&affine, module, "module_affine"));
    }
    ~Module() { (void)hipModuleUnload(module); }
};

// The arguments of `module_affine`, packed as in the kernel's buffer.
struct Packed {
    unsigned *data;
    unsigned count, factor, term;
};

// Launches `affine` through `extra`.
hipError_t launch_packed(hipFunction_t function, Packed packed, size_t size = sizeof(Packed)) {
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     HIP_LAUNCH_PARAM_END};
    return hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra);
}

// Loads one file and runs its kernel.
void loads_and_runs(const char *name) {
    Module loaded(name);
    Device<unsigned> data(64, 1);
    OK(launch_packed(loaded.affine, {data, 64, 5, 2}));
    REQUIRE(data.holds(7));
}

} // namespace

CASE(arguments_by_address_arrive) {
    Module loaded;
    Device<unsigned> data(64, 2);
    unsigned *address = data;
    unsigned count = 64, factor = 3, term = 1;
    void *arguments[] = {&address, &count, &factor, &term};
    OK(hipModuleLaunchKernel(loaded.affine, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    REQUIRE(data.holds(7));
}

CASE(arguments_by_extra_arrive) {
    Module loaded;
    Device<unsigned> data(64, 2);
    OK(launch_packed(loaded.affine, {data, 64, 3, 1}));
    REQUIRE(data.holds(7));
}

CASE(an_extra_buffer_may_be_reused_at_once) {
    Module loaded;
    Device<unsigned> data(64, 0);
    Stream stream;
    Gate gate(stream);
    Packed packed = {data, 64, 1, 9};
    size_t size = sizeof packed;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     HIP_LAUNCH_PARAM_END};
    OK(hipModuleLaunchKernel(loaded.affine, 1, 1, 1, 64, 1, 1, 0, stream, nullptr, extra));
    packed = {nullptr, 0, 0, 0};
    gate.open();
    REQUIRE(data.holds(9));
}

CASE(both_ways_to_pass_arguments_at_once_are_refused) {
    Module loaded;
    Device<unsigned> data(64, 2);
    Packed packed = {data, 64, 0, 0};
    size_t size = sizeof packed;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     HIP_LAUNCH_PARAM_END};
    void *arguments[] = {&packed.data, &packed.count, &packed.factor, &packed.term};
    REFUSED(hipModuleLaunchKernel(loaded.affine, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, extra),
            hipErrorInvalidValue);
    REQUIRE(data.holds(2));
}

CASE(neither_way_to_pass_arguments_is_refused) {
    Module loaded;
    REFUSED(hipModuleLaunchKernel(loaded.affine, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr),
            hipErrorInvalidValue);
}

CASE(an_extra_of_another_form_is_refused) {
    Module loaded;
    Device<unsigned> data(64, 2);
    Packed packed = {data, 64, 0, 0};
    size_t size = sizeof packed;
    void *swapped[] = {HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed,
                       HIP_LAUNCH_PARAM_END};
    REFUSED(hipModuleLaunchKernel(loaded.affine, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, swapped),
            hipErrorInvalidValue, hipErrorNotInitialized);
    REQUIRE(data.holds(2));
}

CASE(a_kernel_without_arguments_needs_neither) {
    Module loaded;
    hipFunction_t touch = nullptr;
    OK(hipModuleGetFunction(&touch, loaded.module, "module_touch"));
    OK(hipModuleLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(hipDeviceSynchronize());
}

CASE(no_function_is_refused) {
    REFUSED(hipModuleLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            hipErrorInvalidImage, hipErrorInvalidHandle, hipErrorInvalidResourceHandle, hipErrorInvalidValue);
}

CASE(an_empty_grid_is_refused) {
    Module loaded;
    void *arguments[] = {nullptr, nullptr, nullptr, nullptr};
    REFUSED(hipModuleLaunchKernel(loaded.affine, 0, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr),
            hipErrorInvalidValue, hipErrorInvalidConfiguration);
    REFUSED(hipModuleLaunchKernel(loaded.affine, 1, 1, 1, 64, 0, 1, 0, nullptr, arguments, nullptr),
            hipErrorInvalidValue, hipErrorInvalidConfiguration);
}

CASE(the_extended_launch_counts_threads_not_blocks) {
    Module loaded;
    Device<unsigned> data(256, 0);
    Packed packed = {data, 256, 1, 1};
    size_t size = sizeof packed;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     HIP_LAUNCH_PARAM_END};
    Event start, stop;
    OK(hipExtModuleLaunchKernel(loaded.affine, 128, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra, start, stop, 0));
    OK(hipEventSynchronize(stop));
    auto found = data.read();
    EQUAL(found[127], 1u);
    EQUAL(found[128], 0u);
    float ms = -1;
    OK(hipEventElapsedTime(&ms, start, stop));
    REQUIRE(ms >= 0);
}

CASE(a_variable_of_a_module_is_found) {
    Module loaded;
    hipDeviceptr_t address = nullptr;
    size_t size = 0;
    OK(hipModuleGetGlobal(&address, &size, loaded.module, "module_variable"));
    EQUAL(size, 12u);
    unsigned found[3] = {};
    OK(hipMemcpyDtoH(found, address, size));
    EQUAL(found[0], 10u);
    EQUAL(found[2], 30u);
    OK(launch_packed(loaded.affine, {static_cast<unsigned *>(address), 3, 2, 1}));
    OK(hipDeviceSynchronize());
    OK(hipMemcpyDtoH(found, address, size));
    EQUAL(found[1], 41u);
}

CASE(two_loads_are_two_modules) {
    Module first, second;
    hipDeviceptr_t one = nullptr, two = nullptr;
    size_t size = 0;
    OK(hipModuleGetGlobal(&one, &size, first.module, "module_variable"));
    OK(hipModuleGetGlobal(&two, &size, second.module, "module_variable"));
    REQUIRE(one != two);
}

CASE(names_that_are_not_there_are_not_found) {
    Module loaded;
    hipFunction_t function = nullptr;
    hipDeviceptr_t address = nullptr;
    size_t size = 0;
    REFUSED(hipModuleGetFunction(&function, loaded.module, "module_affin"), hipErrorNotFound);
    REFUSED(hipModuleGetGlobal(&address, &size, loaded.module, "module_affin"), hipErrorNotFound);
    REFUSED(hipModuleGetFunction(&function, loaded.module, ""), hipErrorInvalidValue, hipErrorNotFound);
    REFUSED(hipModuleGetFunction(nullptr, loaded.module, "module_affine"), hipErrorInvalidValue);
}

CASE(a_file_is_loaded_by_its_path) {
    file("module.co");
    hipModule_t module = nullptr;
    OK(hipModuleLoad(&module, path_of("module.co").c_str()));
    OK(hipModuleUnload(module));
}

CASE(a_missing_file_is_not_found) {
    hipModule_t module = nullptr;
    REFUSED(hipModuleLoad(&module, "/nonexistent/module.co"), hipErrorFileNotFound);
}

CASE(data_that_is_no_image_is_refused) {
    hipModule_t module = nullptr;
    std::vector<char> zeros(4096);
    REFUSED(hipModuleLoadData(&module, zeros.data()), hipErrorInvalidKernelFile, hipErrorInvalidImage,
            hipErrorNoBinaryForGpu);
    REFUSED(hipModuleLoadData(&module, nullptr), hipErrorInvalidValue, hipErrorInvalidImage);
}

CASE(unloading_waits_for_the_modules_kernels) {
    Device<unsigned> data(64, 0);
    Stream stream;
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    auto image = file("module.co");
    OK(hipModuleLoadData(&module, image.data()));
    OK(hipModuleGetFunction(&function, module, "module_affine"));
    Gate gate(stream);
    Packed packed = {data, 64, 1, 4};
    size_t size = sizeof packed;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     HIP_LAUNCH_PARAM_END};
    OK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, nullptr, extra));
    Pending unload([&] { return hipModuleUnload(module); });
    // Releases differ in whether the call waits or only keeps the code; in both cases the kernel's work is
    // done.
    unload.blocks();
    gate.open();
    OK(unload.code());
    REQUIRE(data.holds(4));
}

CASE(an_image_may_be_freed_after_loading) {
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    {
        auto image = file("module.co");
        OK(hipModuleLoadData(&module, image.data()));
        std::fill(image.begin(), image.end(), 0);
    }
    OK(hipModuleGetFunction(&function, module, "module_affine"));
    Device<unsigned> data(64, 0);
    OK(launch_packed(function, {data, 64, 1, 3}));
    REQUIRE(data.holds(3));
    OK(hipModuleUnload(module));
}

CASE(attributes_of_a_function_are_known) {
    Module loaded;
    int threads = 0;
    OK(hipFuncGetAttribute(&threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, loaded.affine));
    REQUIRE(threads >= 64);
}

CASE(code_object_version_4_runs) { loads_and_runs("module.cov4.co"); }
CASE(code_object_version_5_runs) { loads_and_runs("module.cov5.co"); }
CASE(code_object_version_6_runs) { loads_and_runs("module.cov6.co"); }
CASE(a_bundle_runs) { loads_and_runs("module.hipfb"); }
CASE(a_compressed_bundle_runs) { loads_and_runs("module.ccob.hipfb"); }
