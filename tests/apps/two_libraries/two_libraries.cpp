// Reaches HIP in three ways: directly, through libdemo_blas.so on libdemo_kernels.so, and with a loaded
// module.
//
// Launch i uses path i % 3. Each thread has its own memory and stream, and replaces the stream now and then.

#include <vector>

#include "demo_blas.h"
#include "direct_step.hpp"
#include "program.hpp"
#include "steps.h"

// The module's code object, as the build compiled it.
extern "C" const unsigned char MODULE_IMAGE[] = {
#embed "module_step.co"
};

enum Way { DIRECT = 0, LIBRARIES = 1, MODULE = 2 };

constexpr unsigned SIZE = 256;
constexpr size_t BYTES = SIZE * sizeof(unsigned);
// Launches of a thread between two checks of the result, and between two streams.
constexpr unsigned long CHECK_EVERY = 50;
constexpr unsigned long STREAM_EVERY = 100;

// A thread's share: device memory, and the contents that the host expects.
class Worker {
  public:
    explicit Worker(hipFunction_t module_step) : module_step(module_step), expected(SIZE) {
        for (unsigned **buffer : {&x, &y, &workspace}) CHECK(hipMalloc(reinterpret_cast<void **>(buffer), BYTES));
        CHECK(hipHostMalloc(reinterpret_cast<void **>(&pinned), BYTES, 0));
        CHECK(hipEventCreate(&event));
        open_stream();
        for (unsigned i = 0; i < SIZE; i++) pinned[i] = host_x(i);
        CHECK(hipMemcpyAsync(x, pinned, BYTES, hipMemcpyHostToDevice, stream));
        CHECK(hipMemsetAsync(y, 0, BYTES, stream));
        CHECK(hipStreamSynchronize(stream));
    }

    ~Worker() {
        CHECK(hipStreamDestroy(stream));
        CHECK(hipEventDestroy(event));
        CHECK(hipHostFree(pinned));
        for (unsigned *buffer : {x, y, workspace}) CHECK(hipFree(buffer));
    }

    void launch(unsigned long number) {
        unsigned seed = static_cast<unsigned>(number);
        switch (number % 3) {
        case DIRECT: direct(seed); break;
        case LIBRARIES: libraries(seed); break;
        case MODULE: module(seed); break;
        }
        if (++launches % STREAM_EVERY == 0) renew_stream();
    }

    bool is_time_to_check() const { return launches % CHECK_EVERY == 0; }

    // Copies the result back after all launches, and compares.
    bool is_as_expected() {
        CHECK(hipMemcpyAsync(pinned, y, BYTES, hipMemcpyDeviceToHost, stream));
        CHECK(hipEventRecord(event, stream));
        CHECK(hipEventSynchronize(event));
        return std::vector<unsigned>(pinned, pinned + SIZE) == expected;
    }

    std::uint64_t checksum() const { return hash(expected); }

  private:
    static unsigned host_x(unsigned i) { return 2654435761u * (i + 1); }

    void open_stream() { CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking)); }

    void renew_stream() {
        CHECK(hipStreamSynchronize(stream));
        CHECK(hipStreamDestroy(stream));
        open_stream();
    }

    void direct(unsigned seed) {
        DirectStep step = {seed | 1, {1, 2, 3}, 0x100000000ull + seed};
        CHECK(launch_direct_step(step, y, x, SIZE, stream));
        for (unsigned i = 0; i < SIZE; i++) expected[i] = direct_element(expected[i], host_x(i), step);
    }

    // Alternates between the library's two functions.
    void libraries(unsigned seed) {
        bool is_axpy = seed / 3 % 2 == 0;
        demo_blas_status status = is_axpy ? demo_blas_axpy(SIZE, seed, x, y, workspace, stream)
                                          : demo_blas_mix(SIZE, x, y, stream);
        if (status != DEMO_BLAS_SUCCESS) {
            std::fprintf(stderr, "demo_blas failed\n");
            std::exit(1);
        }
        for (unsigned i = 0; i < SIZE; i++) {
            expected[i] = is_axpy ? scale_add_element<unsigned>(expected[i], host_x(i), seed)
                                  : mix_element<unsigned, 3>(expected[i], host_x(i));
        }
    }

    void module(unsigned seed) {
        unsigned size = SIZE;
        void *arguments[] = {&y, &x, &seed, &size};
        CHECK(hipModuleLaunchKernel(module_step, SIZE / 64, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr));
        for (unsigned i = 0; i < SIZE; i++) expected[i] = module_element(expected[i], host_x(i), seed);
    }

    hipFunction_t module_step;
    unsigned *x, *y, *workspace, *pinned;
    hipStream_t stream;
    hipEvent_t event;
    unsigned long launches = 0;
    std::vector<unsigned> expected;
};

int main(int argc, char **argv) {
    Options options = Options::parse(argc, argv);
    hipModule_t module;
    hipFunction_t module_step;
    CHECK(hipModuleLoadData(&module, MODULE_IMAGE));
    CHECK(hipModuleGetFunction(&module_step, module, "module_step"));

    Outcome outcome = run_threads(options, [&](Launches &launches, unsigned) {
        Worker worker(module_step);
        Outcome outcome;
        unsigned long number;
        while (launches.take(number)) {
            worker.launch(number);
            outcome.launches[number % 3]++;
            if (worker.is_time_to_check()) outcome.ok &= worker.is_as_expected();
        }
        outcome.ok &= worker.is_as_expected();
        outcome.checksum = worker.checksum();
        return outcome;
    });

    CHECK(hipModuleUnload(module));
    std::printf("two_libraries: %lu launches (%lu direct, %lu libdemo_blas->libdemo_kernels, %lu module), "
                "checksum 0x%016llx, %s\n",
                outcome.launches[DIRECT] + outcome.launches[LIBRARIES] + outcome.launches[MODULE],
                outcome.launches[DIRECT], outcome.launches[LIBRARIES], outcome.launches[MODULE],
                static_cast<unsigned long long>(outcome.checksum), outcome.ok ? "ok" : "WRONG");
    return outcome.ok ? 0 : 1;
}
