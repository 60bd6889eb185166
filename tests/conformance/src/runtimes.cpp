// Two copies of the runtime in one process, as on a system with ROCm and a wheel that brings its own.

#define AREA "runtimes"

#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gate.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace {

// The file of the library on which this process runs. It is not found by a function's address, which may be
// an interposer's.
std::string runtime_file() {
    std::string found;
    auto look = [](dl_phdr_info *info, size_t, void *found) {
        std::string path = info->dlpi_name;
        bool is_runtime = std::filesystem::path(path).filename().string().starts_with("libamdhip64");
        if (is_runtime) *static_cast<std::string *>(found) = path;
        return is_runtime ? 1 : 0;
    };
    dl_iterate_phdr(look, &found);
    REQUIRE(!found.empty());
    return found;
}

// A second copy of that library, from another file.
class Copy {
  public:
    Copy() {
        char folder[] = "/tmp/conformance-XXXXXX";
        REQUIRE(mkdtemp(folder) != nullptr);
        auto path = std::filesystem::path(folder) / "libamdhip64-copy.so";
        std::filesystem::copy_file(std::filesystem::canonical(runtime_file()), path);
        library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        std::string error = library == nullptr ? dlerror() : "";
        std::filesystem::remove_all(folder);
        if (library == nullptr) suite::skip("the runtime cannot be loaded from another place: " + error);
    }

    // A function of the copy.
    template <typename Function> Function *find(const char *name) const {
        void *address = dlsym(library, name);
        REQUIRE(address != nullptr);
        return reinterpret_cast<Function *>(address);
    }

  private:
    void *library;
};

} // namespace

// The copy's function of this name, with our function's type.
#define OTHER(copy, function) copy.find<decltype(function)>(#function)

CASE(a_second_copy_has_functions_of_its_own) {
    Copy copy;
    REQUIRE(OTHER(copy, hipGetDeviceCount) != hipGetDeviceCount);
    int ours = 0, theirs = 0;
    OK(hipGetDeviceCount(&ours));
    OK(OTHER(copy, hipGetDeviceCount)(&theirs));
    EQUAL(ours, theirs);
}

CASE(a_kernel_is_registered_in_one_copy_only) {
    Copy copy;
    Device<unsigned> data(64, 0);
    unsigned *address = data;
    unsigned count = 64, factor = 1, term = 1;
    void *arguments[] = {&address, &count, &factor, &term};
    REFUSED(OTHER(copy, hipLaunchKernel)(affine_kernel(), dim3(1), dim3(64), arguments, 0, nullptr),
            hipErrorInvalidDeviceFunction);
    REQUIRE(data.holds(0));
    OK(hipLaunchKernel(affine_kernel(), dim3(1), dim3(64), arguments, 0, nullptr));
    REQUIRE(data.holds(1));
}

CASE(each_copy_has_its_last_error) {
    Copy copy;
    REFUSED(copy.find<hipError_t(void **, size_t)>("hipMalloc")(nullptr, 16), hipErrorInvalidValue);
    EQUAL(hipGetLastError(), hipSuccess);
    EQUAL(OTHER(copy, hipGetLastError)(), hipErrorInvalidValue);
}

CASE(each_copy_has_its_null_stream) {
    Copy copy;
    Gate gate(nullptr);
    Pending theirs([&] { return OTHER(copy, hipStreamSynchronize)(nullptr); });
    bool returned = theirs.returns();
    gate.open();
    OK(theirs.code());
    REQUIRE(returned);
}

CASE(a_second_copy_computes) {
    Copy copy;
    void *address = nullptr;
    unsigned found[4] = {};
    OK(copy.find<hipError_t(void **, size_t)>("hipMalloc")(&address, 16));
    OK(OTHER(copy, hipMemset)(address, 3, 16));
    OK(OTHER(copy, hipMemcpy)(found, address, 16, hipMemcpyDeviceToHost));
    EQUAL(found[3], 0x03030303u);
    OK(OTHER(copy, hipFree)(address));
}
