// What two of rocRAND 5.3's kernels do, for the simulated runtime (see hip_sim.h). Linked into the suite's twins.
//
// Seeds, counters, direction numbers, addresses and sizes are the library's, out of its argument buffers. The steps are
// those of the published generators: Philox4x32-10 (Salmon et al., 2011) and Sobol's in Gray code order (Antonov and
// Saleev, 1979). Where the library has computed on the host what a twin computes, the twin compares.

#include <array>
#include <cstddef>
#include <cstdint>

#include "hip_sim.h"

namespace {

using Block = std::array<uint32_t, 4>;

Block philox(uint64_t counter, std::array<uint32_t, 2> key) {
    Block block = {uint32_t(counter), uint32_t(counter >> 32), 0, 0};
    for (int round = 0; round < 10; round++) {
        uint64_t first = uint64_t(0xd2511f53) * block[0], second = uint64_t(0xcd9e8d57) * block[2];
        block = {uint32_t(second >> 32) ^ block[1] ^ key[0], uint32_t(second),
                 uint32_t(first >> 32) ^ block[3] ^ key[1], uint32_t(first)};
        key = {key[0] + 0x9e3779b9, key[1] + 0xbb67ae85};
    }
    return block;
}

struct PhiloxArguments {
    uint64_t counter;
    uint64_t counter_high;
    Block block; // of `counter`, computed by the library on the host
    std::array<uint32_t, 2> key;
    uint32_t used; // numbers of the block that were given out before
    uint32_t *out;
    size_t count;
};
static_assert(offsetof(PhiloxArguments, out) == 48);

struct SobolArguments {
    uint32_t *out;
    size_t count; // in each dimension
    const uint32_t *directions;
    uint32_t offset;
};

} // namespace

extern "C" {

// generate_kernel<unsigned, uniform_distribution<unsigned>>(philox4x32_10_device_engine, unsigned *, size_t, ...)
HIP_SIM_TWIN(
    _ZN12rocrand_host6detailL15generate_kernelIj20uniform_distributionIjEEEvNS0_27philox4x32_10_device_engineEPT_mT0_) {
    const auto &a = *static_cast<const PhiloxArguments *>(launch->kernarg);
    if (philox(a.counter, a.key) != a.block) return;
    for (size_t i = 0; i < a.count; i++) {
        size_t position = a.used + i;
        a.out[i] = philox(a.counter + position / 4, a.key)[position % 4];
    }
}

// generate_kernel<1, unsigned, sobol_uniform_distribution<unsigned>>(unsigned *, size_t, const unsigned *, unsigned, ..)
HIP_SIM_TWIN(
    _ZN12rocrand_host6detailL15generate_kernelILj1Ej26sobol_uniform_distributionIjEEEvPT0_mPKjjT1_) {
    const auto &a = *static_cast<const SobolArguments *>(launch->kernarg);
    for (size_t dimension = 0; dimension < launch->grid[1]; dimension++)
        for (size_t i = 0; i < a.count; i++) {
            uint32_t index = a.offset + uint32_t(i), gray = index ^ index >> 1, x = 0;
            for (unsigned bit = 0; bit < 32; bit++)
                if (gray >> bit & 1) x ^= a.directions[dimension * 32 + bit];
            a.out[dimension * a.count + i] = x;
        }
}
}
