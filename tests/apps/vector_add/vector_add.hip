// The smallest program: one kernel on the default stream, checked on the host.

#include <vector>

#include "program.hpp"
#include "vectors.h"

// Adds to the sum, so that a launch that is lost or repeated changes the result.
extern "C" __global__ void vector_add(Vectors vectors, unsigned *sum) {
    unsigned i = global_thread_x();
    if (i < vectors.size) sum[i] += vectors.a[i] + vectors.b[i] + vectors.bias;
}

constexpr unsigned SIZE = 1000;
constexpr unsigned BLOCK = 256;
// Launches between two checks of the result.
constexpr unsigned long CHECK_EVERY = 64;

struct Buffers {
    unsigned *a, *b, *sum;
    std::vector<unsigned> host_a, host_b, expected;

    Buffers() : host_a(SIZE), host_b(SIZE), expected(SIZE) {
        for (unsigned i = 0; i < SIZE; i++) {
            host_a[i] = i;
            host_b[i] = i * i;
        }
        for (unsigned **buffer : {&a, &b, &sum}) CHECK(hipMalloc(reinterpret_cast<void **>(buffer), bytes()));
        CHECK(hipMemcpy(a, host_a.data(), bytes(), hipMemcpyHostToDevice));
        CHECK(hipMemcpy(b, host_b.data(), bytes(), hipMemcpyHostToDevice));
        CHECK(hipMemset(sum, 0, bytes()));
    }

    ~Buffers() {
        for (unsigned *buffer : {a, b, sum}) CHECK(hipFree(buffer));
    }

    static constexpr size_t bytes() { return SIZE * sizeof(unsigned); }

    void launch(unsigned bias) {
        Vectors vectors = {a, b, bias, SIZE};
        vector_add<<<(SIZE + BLOCK - 1) / BLOCK, BLOCK>>>(vectors, sum);
        CHECK(hipGetLastError());
        for (unsigned i = 0; i < SIZE; i++) expected[i] += host_a[i] + host_b[i] + bias;
    }

    bool is_as_expected() const {
        std::vector<unsigned> found(SIZE);
        CHECK(hipMemcpy(found.data(), sum, bytes(), hipMemcpyDeviceToHost));
        return found == expected;
    }
};

static Outcome run(Launches &launches, unsigned) {
    Buffers buffers;
    Outcome outcome;
    unsigned long number;
    while (launches.take(number)) {
        buffers.launch(static_cast<unsigned>(number));
        if (++outcome.launches[0] % CHECK_EVERY == 0) outcome.ok &= buffers.is_as_expected();
    }
    outcome.ok &= buffers.is_as_expected();
    outcome.checksum = hash(buffers.expected);
    return outcome;
}

int main(int argc, char **argv) {
    Options options = Options::parse(argc, argv);
    Outcome outcome = run_threads(options, run);
    std::printf("vector_add: %lu launches, checksum 0x%016llx, %s\n", outcome.launches[0],
                static_cast<unsigned long long>(outcome.checksum), outcome.ok ? "ok" : "WRONG");
    return outcome.ok ? 0 : 1;
}
