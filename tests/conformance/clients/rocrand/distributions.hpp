// The distributions of rocRAND 5.3: what its kernels compute from a generator's numbers.
//
// Each declares how many numbers it takes and how many it gives. Box and Muller, 1958; Walker's alias method,
// 1974.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

// The family of the generator: MRG32k3a's numbers end before 2^32 and begin at 1.
enum class Family { Plain, Mrg, Sobol };

namespace distributions {

constexpr double PI = 3.1415926535897932;
constexpr double TO_32 = 0x1p-32, TO_53 = 0x1p-53, TO_64 = 0x1p-64;
constexpr double MRG_UNIT = 2.3283065498378288e-10, MRG_TO_32_BITS = 1.000000048661607;

// The library's tables of a discrete distribution, in device memory.
struct Tables {
    uint32_t size, offset;
    const uint32_t *alias;
    const double *probability, *cdf;
};

// Arguments of the distribution, which follow the kernel's others.
struct Arguments {
    const char *at;

    template <typename T> T get(size_t index) const {
        T value;
        std::memcpy(&value, at + index * sizeof(T), sizeof value);
        return value;
    }
};

inline float uniform_float(uint32_t x) { return float(TO_32) + float(x) * float(TO_32); }
inline double uniform_double(uint64_t x53) { return TO_53 + double(x53) * TO_53; }
inline uint32_t mrg_bits(uint32_t x) { return uint32_t((x - 1) * MRG_TO_32_BITS); }

template <Family F> struct Bits {
    using Output = uint32_t;
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    explicit Bits(Arguments) {}

    template <typename Word> void operator()(const Word *in, Output *out) const {
        out[0] = F == Family::Mrg ? mrg_bits(uint32_t(in[0])) : uint32_t(in[0] >> (sizeof(Word) - 4) * 8);
    }
};

// Pieces of a pseudo-random number's bits, the lowest first; or a quasi-random number's highest bits.
template <Family F, typename T> struct Pieces {
    using Output = T;
    static constexpr int INPUTS = 1, OUTPUTS = F == Family::Sobol ? 1 : 4 / sizeof(T);
    explicit Pieces(Arguments) {}

    template <typename Word> void operator()(const Word *in, Output *out) const {
        if constexpr (F == Family::Sobol) {
            out[0] = T(in[0] >> (sizeof(Word) - sizeof(T)) * 8);
        } else {
            uint32_t bits = F == Family::Mrg ? mrg_bits(in[0]) : in[0];
            for (int i = 0; i < OUTPUTS; i++) out[i] = T(bits >> i * 8 * sizeof(T));
        }
    }
};

template <Family F> struct UniformHalf {
    using Output = _Float16;
    using Bits = Pieces<F, uint16_t>;
    static constexpr int INPUTS = 1, OUTPUTS = Bits::OUTPUTS;
    explicit UniformHalf(Arguments) {}

    template <typename Word> void operator()(const Word *in, Output *out) const {
        uint16_t bits[OUTPUTS];
        Bits(Arguments{})(in, bits);
        for (int i = 0; i < OUTPUTS; i++) out[i] = _Float16(0x1p-16f + bits[i] * 0x1p-16f);
    }
};

// Of Sobol64's numbers, 5.3 takes the low half for floats, whose bits are zero in the first 2^32 points.
template <Family F> struct UniformFloat {
    using Output = float;
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    explicit UniformFloat(Arguments) {}

    template <typename Word> void operator()(const Word *in, Output *out) const {
        out[0] = F == Family::Mrg ? float(double(in[0]) * MRG_UNIT) : uniform_float(uint32_t(in[0]));
    }
};

template <Family F> struct UniformDouble {
    using Output = double;
    static constexpr int INPUTS = F == Family::Plain ? 2 : 1, OUTPUTS = 1;
    explicit UniformDouble(Arguments) {}

    template <typename Word> void operator()(const Word *in, Output *out) const {
        if constexpr (F == Family::Mrg)
            out[0] = double(in[0]) * MRG_UNIT;
        else if constexpr (F == Family::Plain)
            out[0] = uniform_double(in[0] | uint64_t(in[1] >> 11) << 32);
        else if constexpr (sizeof(Word) == 8)
            out[0] = uniform_double(in[0] >> 11);
        else
            out[0] = TO_32 + double(in[0]) * TO_32;
    }
};

// Winitzki's approximation of the inverse error function, which the library uses for quasi-random normal
// numbers.
template <typename T> T inverse_error(T x) {
    constexpr T A = T(0.147), PI_OF_T = std::is_same_v<T, float> ? T(3.1415926f) : T(PI);
    T sign = x < 0 ? T(-1) : T(1), logarithm = std::log((1 - x) * (1 + x));
    if (std::isnan(logarithm)) return 1;
    if (std::isinf(logarithm)) return 0;
    T half = 2 / (PI_OF_T * A) + T(0.5) * logarithm;
    return sign * std::sqrt(-half + std::sqrt(half * half - 1 / A * logarithm));
}

template <Family F, typename T> struct Normal {
    using Output = T;
    static constexpr bool IS_FLOAT = std::is_same_v<T, float>;
    static constexpr int INPUTS = F == Family::Sobol ? 1 : F == Family::Plain && !IS_FLOAT ? 4 : 2;
    static constexpr int OUTPUTS = F == Family::Sobol ? 1 : 2;
    T mean, deviation;
    explicit Normal(Arguments a) : mean(a.get<T>(0)), deviation(a.get<T>(1)) {}

    template <typename Word> void operator()(const Word *in, Output *out) const {
        if constexpr (F == Family::Sobol) {
            T uniform;
            UniformOf<Family::Sobol>(Arguments{})(in, &uniform);
            // The square root of two in single precision, even if the result is double.
            out[0] = mean + T(1.4142135f) * inverse_error(2 * uniform - 1) * deviation;
        } else {
            std::array<T, 2> pair = box_muller(in);
            for (int i = 0; i < 2; i++) out[i] = mean + pair[i] * deviation;
        }
    }

  private:
    template <Family G> using UniformOf = std::conditional_t<IS_FLOAT, UniformFloat<G>, UniformDouble<G>>;

    static std::array<T, 2> box_muller(const uint32_t *in) {
        T radius, angle;
        if constexpr (F == Family::Mrg) {
            // Single precision even if the result is double.
            radius = float(double(in[0]) * MRG_UNIT);
            angle = float(double(in[1]) * MRG_UNIT) * (IS_FLOAT ? T(6.2831855f) : T(2 * PI));
        } else if constexpr (IS_FLOAT) {
            constexpr float TURN = float(TO_32) * 6.2831855f;
            radius = uniform_float(in[0]);
            angle = TURN + float(in[1]) * TURN;
        } else {
            radius = uniform_double(in[0] ^ uint64_t(in[1]) << 21);
            angle = (TO_53 * 2 + double(in[2] ^ uint64_t(in[3]) << 21) * (TO_53 * 2)) * PI;
        }
        T length = std::sqrt(T(-2) * std::log(radius));
        return {std::sin(angle) * length, std::cos(angle) * length};
    }
};

template <Family F, typename T> struct LogNormal : Normal<F, T> {
    using Normal<F, T>::Normal;

    // Of Sobol64's numbers, 5.3 takes the low half here too.
    template <typename Word> void operator()(const Word *in, T *out) const {
        std::array<uint32_t, 4> low;
        for (int i = 0; i < this->INPUTS; i++) low[i] = uint32_t(in[i]);
        Normal<F, T>::operator()(low.data(), out);
        for (int i = 0; i < this->OUTPUTS; i++) out[i] = std::exp(out[i]);
    }
};

template <Family F> struct Discrete {
    using Output = uint32_t;
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    Tables tables;
    explicit Discrete(Arguments a) : tables(a.get<Tables>(0)) {}

    template <typename Word> void operator()(const Word *in, Output *out) const {
        double x = F == Family::Mrg ? mrg_bits(uint32_t(in[0])) * TO_32
                                    : double(in[0]) * (sizeof(Word) == 8 ? TO_64 : TO_32);
        uint32_t entry;
        if (F == Family::Sobol) {
            // The last entry takes the remainder that rounding has left above the table.
            const double *end = tables.cdf + tables.size - 1;
            entry = uint32_t(std::lower_bound(tables.cdf, end, x) - tables.cdf);
        } else {
            double scaled = tables.size * x;
            entry = uint32_t(scaled);
            if (scaled - entry >= tables.probability[entry]) entry = tables.alias[entry];
        }
        out[0] = tables.offset + entry;
    }
};

} // namespace distributions
