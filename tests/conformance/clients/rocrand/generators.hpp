// The generators of rocRAND 5.3, in its kernels' memory layout, and their steps.
//
// Philox4x32-10: Salmon et al., 2011. XORWOW: Marsaglia, 2003. MRG32k3a: L'Ecuyer, 1999. MTGP32: Saito and
// Matsumoto, 2013. Sobol in Gray code order: Antonov and Saleev, 1979. Seeds become states by rocRAND's own
// rules.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace philox {

using Block = std::array<uint32_t, 4>;

inline Block block(uint64_t counter, uint64_t counter_high, std::array<uint32_t, 2> key) {
    Block block = {uint32_t(counter), uint32_t(counter >> 32), uint32_t(counter_high), uint32_t(counter_high >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t first = uint64_t(0xd2511f53) * block[0], second = uint64_t(0xcd9e8d57) * block[2];
        block = {uint32_t(second >> 32) ^ block[1] ^ key[0], uint32_t(second),
                 uint32_t(first >> 32) ^ block[3] ^ key[1], uint32_t(first)};
        key = {key[0] + 0x9e3779b9, key[1] + 0xbb67ae85};
    }
    return block;
}

} // namespace philox

namespace xorwow {

using Words = std::array<uint32_t, 5>;

inline void shift(Words &x) {
    uint32_t t = x[0] ^ x[0] >> 2;
    x = {x[1], x[2], x[3], x[4], (x[4] ^ x[4] << 4) ^ (t ^ t << 1)};
}

struct Engine {
    static constexpr uint32_t WEYL = 362437;
    uint32_t d;
    Words x;

    uint32_t operator()() {
        shift(x);
        return (d += WEYL) + x[4];
    }
};
static_assert(sizeof(Engine) == 24);

// A linear map of the 160 bits, given by the image of each.
class Map {
  public:
    static Map identity() {
        return of([](Words &) {});
    }
    static Map step() { return of(shift); }

    Words operator()(const Words &x) const {
        Words result = {};
        for (int bit = 0; bit < 160; bit++) {
            uint32_t mask = -(x[bit / 32] >> bit % 32 & 1);
            for (int word = 0; word < 5; word++) result[word] ^= mask & images[bit][word];
        }
        return result;
    }
    // The composition: first `other`, then this.
    Map operator*(const Map &other) const {
        Map product;
        for (int bit = 0; bit < 160; bit++) product.images[bit] = (*this)(other.images[bit]);
        return product;
    }
    Map power(uint64_t exponent) const {
        Map result = identity(), square = *this;
        for (; exponent != 0; exponent >>= 1, square = square * square)
            if (exponent & 1) result = square * result;
        return result;
    }
    Map squared(int times) const {
        Map result = *this;
        while (times-- > 0) result = result * result;
        return result;
    }

  private:
    template <typename F> static Map of(F change) {
        Map map;
        for (int bit = 0; bit < 160; bit++) {
            map.images[bit] = {};
            map.images[bit][bit / 32] = 1u << bit % 32;
            change(map.images[bit]);
        }
        return map;
    }
    std::array<Words, 160> images;
};

inline Engine seeded(uint64_t seed) {
    uint32_t low = 1228688033 * (uint32_t(seed) ^ 0x2c7f967f);
    uint32_t high = 2073658381 * (uint32_t(seed >> 32) ^ 0xa03697cb);
    return {6615241 + high + low,
            {123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low}};
}

} // namespace xorwow

namespace mrg32k3a {

// Modulus of one of the two recurrences: 2^32 less the modulus, and the library's number of folds.
struct Modulus {
    uint64_t gap;
    int folds;

    uint64_t value() const { return (1ull << 32) - gap; }
    // The library's reduction: congruent, and smaller than the modulus only if the argument is small enough.
    uint64_t operator()(uint64_t p) const {
        for (int i = 0; i < folds; i++) p = gap * (p >> 32) + uint32_t(p);
        return p >= value() ? p - value() : p;
    }
    // Wraps at 64 bits for large seeds, as in the library.
    uint32_t product(uint32_t x, uint64_t seed) const {
        uint64_t high = (*this)((x >> 17) * seed) << 17, low = (*this)((x & 0x1ffff) * seed);
        return uint32_t((*this)(high + low));
    }
};
constexpr Modulus FIRST = {209, 1}, SECOND = {22853, 2};

using Vector = std::array<uint32_t, 3>;
using Matrix = std::array<std::array<uint64_t, 3>, 3>;

inline Vector apply(const Matrix &a, const Vector &v, uint64_t modulus) {
    Vector result;
    for (int row = 0; row < 3; row++) {
        unsigned __int128 sum = 0;
        for (int k = 0; k < 3; k++) sum += static_cast<unsigned __int128>(a[row][k]) * v[k];
        result[row] = uint32_t(sum % modulus);
    }
    return result;
}

inline Matrix multiply(const Matrix &a, const Matrix &b, uint64_t modulus) {
    Matrix result;
    for (int column = 0; column < 3; column++) {
        Vector image = apply(a, {uint32_t(b[0][column]), uint32_t(b[1][column]), uint32_t(b[2][column])}, modulus);
        for (int row = 0; row < 3; row++) result[row][column] = image[row];
    }
    return result;
}

inline Matrix power(Matrix a, uint64_t exponent, uint64_t modulus) {
    Matrix result = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    for (; exponent != 0; exponent >>= 1, a = multiply(a, a, modulus))
        if (exponent & 1) result = multiply(a, result, modulus);
    return result;
}

inline Matrix squared(Matrix a, int times, uint64_t modulus) {
    while (times-- > 0) a = multiply(a, a, modulus);
    return a;
}

inline Matrix first_step() { return {{{0, 1, 0}, {0, 0, 1}, {FIRST.value() - 810728, 1403580, 0}}}; }
inline Matrix second_step() { return {{{0, 1, 0}, {0, 0, 1}, {SECOND.value() - 1370589, 0, 527612}}}; }

struct Engine {
    Vector first, second;

    // From 1 to the modulus.
    uint32_t operator()() {
        first = apply(first_step(), first, FIRST.value());
        second = apply(second_step(), second, SECOND.value());
        uint64_t p1 = first[2], p2 = second[2];
        return uint32_t(p1 <= p2 ? p1 + FIRST.value() - p2 : p1 - p2);
    }
};
static_assert(sizeof(Engine) == 24);

inline Engine seeded(uint64_t seed) {
    if (seed == 0) seed = 12345;
    uint32_t x = uint32_t(seed) ^ 0x55555555, y = uint32_t(seed >> 32) ^ 0xaaaaaaaa;
    uint32_t x1 = FIRST.product(x, seed), y1 = FIRST.product(y, seed);
    uint32_t x2 = SECOND.product(x, seed), y2 = SECOND.product(y, seed);
    return {{x1, y1, x1}, {y2, x2, y2}};
}

} // namespace mrg32k3a

namespace mtgp32 {

// One for each block; the library creates them on the host.
struct Engine {
    static constexpr unsigned SIZE = 1024, DEGREE = 351;
    uint32_t offset, id;
    uint32_t status[SIZE];
    uint32_t pick_up, recursion[16], tempering[16], shift_left, shift_right, tempering_single[16], mask;

    // The numbers that all threads of a block get in one step, in their order.
    template <size_t Threads> void operator()(std::array<uint32_t, Threads> &numbers) {
        for (unsigned thread = 0; thread < Threads; thread++) {
            uint32_t x = (at(thread) & mask) ^ at(thread + 1);
            x ^= x << shift_left;
            uint32_t y = x ^ at(thread + pick_up) >> shift_right;
            at(thread + DEGREE) = y ^ recursion[y & 15];
            uint32_t t = at(thread + pick_up - 1);
            t ^= t >> 16;
            t ^= t >> 8;
            numbers[thread] = at(thread + DEGREE) ^ tempering[t & 15];
        }
        offset = (offset + Threads) % SIZE;
    }

  private:
    uint32_t &at(unsigned index) { return status[(offset + index) % SIZE]; }
};
static_assert(offsetof(Engine, mask) == 4 * (2 + 1024 + 1 + 16 + 16 + 2 + 16));

} // namespace mtgp32

namespace sobol {

// The point with an index in one dimension, from its direction numbers.
template <typename Word> Word point(const Word *directions, uint32_t index) {
    Word x = 0;
    uint32_t gray = index ^ index >> 1;
    for (unsigned bit = 0; bit < 32; bit++)
        if (gray >> bit & 1) x ^= directions[bit];
    return x;
}

} // namespace sobol
