// rocRAND 5.3's own device functions, from its public headers, compiled for the host: the reference for the
// executor.
//
// They give an engine's numbers, and the values that a distribution computes from numbers. The caller decides
// which engine gives which number of a sequence. MTGP32's step exists for devices only. Here its states are
// the headers' and the recurrence is the published sequential one.

#define FQUALIFIERS inline

#include <cstring>
#include <vector>

#include <hip/hip_runtime.h>
#include <rocrand/rocrand_kernel.h>
#include <rocrand/rocrand_mtgp32_11213.h>
#include <rocrand/rocrand_sobol32_precomputed.h>
#include <rocrand/rocrand_sobol64_precomputed.h>

namespace {

namespace device = rocrand_device::detail;

// rocrand_rng_type
enum Kind { XORWOW = 401, MRG32K3A = 402, MTGP32 = 403, PHILOX = 404, SOBOL32 = 501, SOBOL64 = 504 };
enum Shape { BITS, UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE, LOG_NORMAL, LOG_NORMAL_DOUBLE, POISSON };

template <typename Engine> void run(Engine engine, unsigned long long *out, size_t count) {
    for (size_t i = 0; i < count; i++) out[i] = engine.next();
}

void run_mtgp32(unsigned long long seed, unsigned block, unsigned long long *out, size_t count) {
    mtgp32_fast_params &params = mtgp32dc_params_fast_11213[block];
    unsigned size = params.mexp / 32 + 1;
    std::vector<unsigned> x(size + count);
    seed ^= seed >> 32;
    rocrand_device::rocrand_mtgp32_init_state(x.data(), &params, unsigned(seed) + block + 1);
    for (size_t i = 0; i < count; i++) {
        unsigned y = (x[i] & mtgp32dc_params_fast_11213[0].mask) ^ x[i + 1];
        y ^= y << params.sh1;
        y ^= x[i + params.pos] >> params.sh2;
        x[i + size] = y ^ params.tbl[y & 15];
        unsigned t = x[i + params.pos - 1];
        t ^= t >> 16;
        t ^= t >> 8;
        out[i] = x[i + size] ^ params.tmp_tbl[t & 15];
    }
}

// The pair that a normal distribution computes from two numbers or four.
double2 pair(int kind, bool is_double, const unsigned *in) {
    if (kind == MRG32K3A) {
        if (is_double) return device::mrg_normal_distribution_double2(in[0], in[1]);
        float2 found = device::mrg_normal_distribution2(in[0], in[1]);
        return {found.x, found.y};
    }
    if (is_double) return device::normal_distribution_double2(uint4{in[0], in[1], in[2], in[3]});
    float2 found = device::normal_distribution2(in[0], in[1]);
    return {found.x, found.y};
}

// The value that a quasi-random generator's distribution computes from one number; the logarithmic ones take
// 32 bits of it.
template <typename Word> double shape_quasi(int shape, Word x) {
    switch (shape) {
    case UNIFORM: return device::uniform_distribution(x);
    case UNIFORM_DOUBLE: return device::uniform_distribution_double(x);
    case NORMAL: return device::normal_distribution(x);
    case NORMAL_DOUBLE: return device::normal_distribution_double(x);
    case LOG_NORMAL: return device::normal_distribution(unsigned(x));
    default: return device::normal_distribution_double(unsigned(x));
    }
}

} // namespace

extern "C" {

// The first numbers of an engine. `subsequence` is a block for MTGP32, a dimension for Sobol.
void reference_numbers(int kind, unsigned long long seed, unsigned subsequence, unsigned offset,
                       unsigned long long *out, size_t count) {
    switch (kind) {
    case XORWOW: return run(rocrand_state_xorwow(seed, subsequence, offset), out, count);
    case MRG32K3A: return run(rocrand_state_mrg32k3a(seed, subsequence, offset), out, count);
    case PHILOX: return run(rocrand_state_philox4x32_10(seed, subsequence, offset), out, count);
    case MTGP32: return run_mtgp32(seed, subsequence, out, count);
    case SOBOL32: return run(rocrand_state_sobol32(&h_sobol32_direction_vectors[subsequence * 32], offset), out, count);
    case SOBOL64: return run(rocrand_state_sobol64(&h_sobol64_direction_vectors[subsequence * 64], offset), out, count);
    }
}

// The values that a distribution computes from an engine's numbers: one, or two for pseudo-random normal
// numbers.
void reference_shape(int kind, int shape, double mean, double deviation,
                     const rocrand_discrete_distribution_st *tables, const unsigned long long *in, double *out) {
    bool is_quasi = kind == SOBOL32 || kind == SOBOL64;
    bool is_double = shape == UNIFORM_DOUBLE || shape == NORMAL_DOUBLE || shape == LOG_NORMAL_DOUBLE;
    unsigned words[4] = {unsigned(in[0]), unsigned(in[1]), unsigned(in[2]), unsigned(in[3])};
    unsigned first = kind == MRG32K3A ? device::mrg_uniform_distribution_uint(words[0]) : words[0];
    if (shape == BITS) {
        out[0] = kind == SOBOL64 ? double(in[0] >> 32) : first;
    } else if (shape == POISSON) {
        out[0] = kind == SOBOL64   ? double(device::discrete_cdf(in[0], *tables))
                 : kind == SOBOL32 ? device::discrete_cdf(first, *tables)
                                   : device::discrete_alias(first, *tables);
    } else if (is_quasi) {
        out[0] = kind == SOBOL64 ? shape_quasi(shape, in[0]) : shape_quasi(shape, words[0]);
        if (shape >= NORMAL) out[0] = mean + out[0] * deviation;
        if (shape >= LOG_NORMAL) out[0] = exp(out[0]);
    } else if (shape == UNIFORM) {
        out[0] = kind == MRG32K3A ? device::mrg_uniform_distribution(words[0]) : device::uniform_distribution(words[0]);
    } else if (shape == UNIFORM_DOUBLE) {
        out[0] = kind == MRG32K3A ? device::mrg_uniform_distribution_double(words[0])
                                  : device::uniform_distribution_double(words[0], words[1]);
    } else {
        double2 found = pair(kind, is_double, words);
        out[0] = mean + found.x * deviation;
        out[1] = mean + found.y * deviation;
        for (int i = 0; shape >= LOG_NORMAL && i < 2; i++) out[i] = exp(out[i]);
    }
}
}
