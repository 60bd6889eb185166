// The work of the kernels that hip-python's clients compile at run time, for the simulated runtime (see
// hip_sim.h). Linked into the suite's twins.
//
// `weighted` is that of checks.py. The others have the names and parameters of the examples in hip-python's
// repository, so that these run unmodified.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "hip_sim.h"

namespace {

unsigned threads(const hip_sim_launch *launch) { return launch->grid[0] * launch->block[0]; }

// Parameters of every size, with gaps from alignment between them.
struct WeightedArguments {
    double weight;
    int8_t sign;
    int16_t term;
    uint32_t count;
    float *data;
};
static_assert(offsetof(WeightedArguments, term) == 10 && offsetof(WeightedArguments, data) == 16);

struct ScaleVectorArguments {
    float factor;
    int count;
    int16_t unused_1;
    int unused_2;
    float unused_3;
    float *x;
};
static_assert(offsetof(ScaleVectorArguments, x) == 24);

struct JacobiArguments {
    float *x;
    const float *a, *b;
    int n;
};

// One step for every row. Rows read values that others write; a device does so in no particular order, this
// twin reads the previous values.
void jacobi(const hip_sim_launch *launch) {
    const auto &args = *static_cast<const JacobiArguments *>(launch->kernarg);
    std::vector<float> before(args.x, args.x + args.n);
    for (unsigned row = 0; row < threads(launch); row++) {
        const float *a = args.a + size_t(row) * args.n;
        float sum = 0;
        for (int column = 0; column < args.n; column++)
            if (column != int(row)) sum += a[column] * before[column];
        args.x[row] = (args.b[row] - sum) / a[row];
    }
}

} // namespace

extern "C" {

HIP_SIM_TWIN(weighted) {
    const auto &args = *static_cast<const WeightedArguments *>(launch->kernarg);
    for (unsigned i = 0; i < threads(launch) && i < args.count; i++)
        args.data[i] = float(args.sign * args.weight * args.data[i] + args.term);
}

HIP_SIM_TWIN(scale_vector) {
    const auto &args = *static_cast<const ScaleVectorArguments *>(launch->kernarg);
    for (unsigned i = 0; i < threads(launch) && int(i) < args.count; i++) args.x[i] *= args.factor;
}

HIP_SIM_TWIN(print_tid) {
    for (unsigned thread = 0; thread < launch->block[0]; thread++) std::printf("tid: %u\n", thread);
    std::fflush(stdout);
}

HIP_SIM_TWIN(jacobi_gpu) { jacobi(launch); }
HIP_SIM_TWIN(jacobi_gpu_unoptimized) { jacobi(launch); }
}
