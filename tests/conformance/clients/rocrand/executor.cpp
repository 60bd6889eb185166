// The work of rocRAND 5.3's kernels, for the simulated runtime: an executor (see hip_sim.h).
//
// A kernel is identified by its mangled name, which contains the generator and the distribution. Seeds,
// states, direction numbers, tables, addresses and sizes are the library's, from its argument buffers. Values
// that both the library and this executor compute on the host are compared. Normal numbers of half precision
// are left to twins, of which there are none, because the kernels compute them in half precision too.

#include <cstring>
#include <string_view>

#include "distributions.hpp"
#include "generators.hpp"
#include "hip_sim.h"

namespace {

using namespace distributions;

constexpr int DONE = 0, LAUNCH_FAILURE = 719;

struct Kernel {
    const hip_sim_launch &launch;
    std::string_view name;

    bool has(std::string_view part) const { return name.find(part) != name.npos; }
    template <typename T> T at(size_t offset) const {
        T value;
        std::memcpy(&value, static_cast<const char *>(launch.kernarg) + offset, sizeof value);
        return value;
    }
    // The distribution's own arguments come last, aligned as they need.
    Arguments after(size_t offset, size_t alignment) const {
        offset = (offset + alignment - 1) / alignment * alignment;
        return {static_cast<const char *>(launch.kernarg) + offset};
    }
    unsigned threads() const { return launch.grid[0] * launch.block[0]; }
};

// Calls `generate` with the distribution in the name, whose arguments are at the offset or soon after.
template <Family F, typename Generate> int with_distribution(const Kernel &kernel, size_t offset, Generate generate) {
    Arguments by_four = kernel.after(offset, 4), by_eight = kernel.after(offset, 8);
    if (kernel.has("uniform_distributionIjE")) return generate(Bits<F>(by_four));
    if (kernel.has("uniform_distributionIhE")) return generate(Pieces<F, uint8_t>(by_four));
    if (kernel.has("uniform_distributionItE")) return generate(Pieces<F, uint16_t>(by_four));
    if (kernel.has("__half") && kernel.has("uniform_distribution")) return generate(UniformHalf<F>(by_four));
    if (kernel.has("uniform_distributionIfE")) return generate(UniformFloat<F>(by_four));
    if (kernel.has("uniform_distributionIdE")) return generate(UniformDouble<F>(by_four));
    if (kernel.has("log_normal_distributionIfE")) return generate(LogNormal<F, float>(by_four));
    if (kernel.has("log_normal_distributionIdE")) return generate(LogNormal<F, double>(by_eight));
    if (kernel.has("normal_distributionIfE")) return generate(Normal<F, float>(by_four));
    if (kernel.has("normal_distributionIdE")) return generate(Normal<F, double>(by_eight));
    if (kernel.has("poisson_distribution")) return generate(Discrete<F>(by_eight));
    return HIP_SIM_NOT_MINE;
}

// Kernels store groups of numbers that are aligned as a whole. Numbers before the first aligned address and
// after the last one are generated at the end.
struct Split {
    size_t head, groups, tail;

    template <typename T> Split(const T *out, size_t count, size_t width) {
        size_t misalignment = (width - reinterpret_cast<uintptr_t>(out) / sizeof(T) % width) % width;
        head = std::min(count, misalignment);
        groups = (count - head) / width;
        tail = (count - head) % width;
    }
};

// XORWOW and MRG32k3a: an engine for each thread, and groups go to engines in turn.
template <typename Engine, Family F> int generate_by_engines(const Kernel &kernel) {
    auto *engines = kernel.at<Engine *>(0);
    size_t first = kernel.at<uint32_t>(8), count = kernel.at<size_t>(24), mask = kernel.threads() - 1;
    return with_distribution<F>(kernel, 32, [&](auto distribution) {
        using D = decltype(distribution);
        auto *out = kernel.at<typename D::Output *>(16);
        typename D::Output numbers[D::OUTPUTS];
        auto draw = [&](size_t group) {
            uint32_t in[D::INPUTS];
            for (uint32_t &number : in) number = engines[(first + group) & mask]();
            distribution(in, numbers);
        };
        Split split(out, count, D::OUTPUTS);
        for (size_t group = 0; group < split.groups; group++) {
            draw(group);
            std::copy_n(numbers, D::OUTPUTS, out + split.head + group * D::OUTPUTS);
        }
        if (split.head > 0) {
            draw(split.groups);
            std::copy_n(numbers, split.head, out);
        }
        if (split.tail > 0) {
            draw(split.groups);
            std::copy_n(numbers, split.tail, out + count - split.tail);
        }
        return DONE;
    });
}

int initialize_xorwow(const Kernel &kernel) {
    auto *engines = kernel.at<xorwow::Engine *>(0);
    uint32_t first = kernel.at<uint32_t>(8);
    uint64_t offset = kernel.at<uint64_t>(24);
    xorwow::Map step = xorwow::Map::step(), subsequence = step.squared(67);
    xorwow::Engine engine = xorwow::seeded(kernel.at<uint64_t>(16));
    engine.x = step.power(offset)(engine.x);
    engine.d += uint32_t(offset) * xorwow::Engine::WEYL;
    for (unsigned id = 0; id < kernel.threads(); id++, engine.x = subsequence(engine.x)) {
        engines[id] = engine;
        if (id < first) engines[id]();
    }
    return DONE;
}

int initialize_mrg32k3a(const Kernel &kernel) {
    using namespace mrg32k3a;
    auto *engines = kernel.at<Engine *>(0);
    uint32_t first = kernel.at<uint32_t>(8);
    uint64_t offset = kernel.at<uint64_t>(24), m1 = FIRST.value(), m2 = SECOND.value();
    // The library's tables hold the 76th squares, though its documentation says 2^67.
    Matrix subsequence_1 = squared(first_step(), 76, m1), subsequence_2 = squared(second_step(), 76, m2);
    Engine engine = seeded(kernel.at<uint64_t>(16));
    engine.first = apply(power(first_step(), offset, m1), engine.first, m1);
    engine.second = apply(power(second_step(), offset, m2), engine.second, m2);
    for (unsigned id = 0; id < kernel.threads(); id++) {
        engines[id] = engine;
        if (id < first) engines[id]();
        engine.first = apply(subsequence_1, engine.first, m1);
        engine.second = apply(subsequence_2, engine.second, m2);
    }
    return DONE;
}

// A block steps as a whole: in one step its engine gives each of its threads a number.
int generate_mtgp32(const Kernel &kernel) {
    constexpr size_t THREADS = 256;
    auto *engines = kernel.at<mtgp32::Engine *>(0);
    size_t count = kernel.at<size_t>(16), blocks = kernel.launch.grid[0];
    if (kernel.launch.block[0] != THREADS) return LAUNCH_FAILURE;
    return with_distribution<Family::Plain>(kernel, 24, [&](auto distribution) {
        using D = decltype(distribution);
        auto *out = kernel.at<typename D::Output *>(8);
        Split split(out, count, D::OUTPUTS);
        for (size_t block = 0; block < blocks; block++) {
            std::array<std::array<uint32_t, THREADS>, D::INPUTS> in;
            typename D::Output numbers[D::OUTPUTS];
            auto step = [&] {
                for (auto &row : in) engines[block](row);
            };
            auto draw = [&](size_t thread) {
                uint32_t own[D::INPUTS];
                for (size_t i = 0; i < in.size(); i++) own[i] = in[i][thread];
                distribution(own, numbers);
            };
            size_t group = block * THREADS;
            for (; group < split.groups; group += blocks * THREADS) {
                step();
                for (size_t thread = 0; thread < std::min(THREADS, split.groups - group); thread++) {
                    draw(thread);
                    std::copy_n(numbers, D::OUTPUTS, out + split.head + (group + thread) * D::OUTPUTS);
                }
            }
            if (D::OUTPUTS == 1 || (split.head == 0 && split.tail == 0)) continue;
            step();
            if (group != (split.groups + THREADS - 1) / THREADS * THREADS) continue;
            draw(0);
            std::copy_n(numbers, split.head, out);
            draw(1);
            std::copy_n(numbers, split.tail, out + count - split.tail);
        }
        return DONE;
    });
}

struct PhiloxArguments {
    uint64_t counter, counter_high;
    philox::Block block; // of the counter, computed by the library on the host
    std::array<uint32_t, 2> key;
    uint32_t used; // numbers of the block that were returned before
    void *out;
    size_t count;
};
static_assert(offsetof(PhiloxArguments, out) == 48);

// One sequence for all: a distribution's n-th group has the n-th numbers, at any memory address.
int generate_philox(const Kernel &kernel) {
    auto a = kernel.at<PhiloxArguments>(0);
    if (philox::block(a.counter, a.counter_high, a.key) != a.block) return LAUNCH_FAILURE;
    return with_distribution<Family::Plain>(kernel, sizeof a, [&](auto distribution) {
        using D = decltype(distribution);
        auto *out = static_cast<typename D::Output *>(a.out);
        // Unaligned memory would begin in another order; hipMalloc returns none.
        if (Split(out, a.count, 4 / D::INPUTS * D::OUTPUTS).head != 0) return LAUNCH_FAILURE;
        size_t position = a.used;
        for (size_t done = 0; done < a.count; done += D::OUTPUTS) {
            uint32_t in[D::INPUTS];
            typename D::Output numbers[D::OUTPUTS];
            for (uint32_t &number : in) {
                uint64_t counter = a.counter + position / 4;
                uint64_t high = a.counter_high + (counter < a.counter ? 1 : 0);
                number = philox::block(counter, high, a.key)[position++ % 4];
            }
            distribution(in, numbers);
            std::copy_n(numbers, std::min<size_t>(D::OUTPUTS, a.count - done), out + done);
        }
        return DONE;
    });
}

template <typename Word> int generate_sobol(const Kernel &kernel) {
    size_t count = kernel.at<size_t>(8);
    auto *directions = kernel.at<const Word *>(16);
    uint32_t offset = kernel.at<uint32_t>(24);
    return with_distribution<Family::Sobol>(kernel, 28, [&](auto distribution) {
        auto *out = kernel.at<typename decltype(distribution)::Output *>(0);
        for (size_t dimension = 0; dimension < kernel.launch.grid[1]; dimension++)
            for (size_t i = 0; i < count; i++) {
                Word x = sobol::point(directions + dimension * sizeof(Word) * 8, offset + uint32_t(i));
                distribution(&x, out + dimension * count + i);
            }
        return DONE;
    });
}

} // namespace

extern "C" __attribute__((visibility("default"))) int hip_sim_execute(const hip_sim_execution *execution) {
    Kernel kernel = {*execution->launch, execution->launch->name};
    if (!kernel.has("_ZN12rocrand_host6detailL")) return HIP_SIM_NOT_MINE;
    bool is_start = kernel.has("init_engines_kernel");
    if (kernel.has("13xorwow_engine"))
        return is_start ? initialize_xorwow(kernel) : generate_by_engines<xorwow::Engine, Family::Plain>(kernel);
    if (kernel.has("15mrg32k3a_engine"))
        return is_start ? initialize_mrg32k3a(kernel) : generate_by_engines<mrg32k3a::Engine, Family::Mrg>(kernel);
    if (kernel.has("13mtgp32_engine")) return generate_mtgp32(kernel);
    if (kernel.has("philox4x32_10_device_engine")) return generate_philox(kernel);
    if (kernel.has("PKjjT1_")) return generate_sobol<uint32_t>(kernel);
    if (kernel.has("PKyjT1_")) return generate_sobol<uint64_t>(kernel);
    return HIP_SIM_NOT_MINE;
}
