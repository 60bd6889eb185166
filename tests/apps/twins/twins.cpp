// libdemo_twins.so: the work of the programs' kernels, for the simulated runtime (see hip_sim.h).
//
// Each twin reads its arguments from the marshalled buffer, in the layout of the kernel's parameters.

#include <unistd.h>

#include "callers.h"
#include "hip_sim.h"
#include "hip_subset.h"
#include "plugin_steps.h"
#include "steps.h"
#include "vectors.h"

namespace {

// Threads of the launch in its only dimension.
unsigned threads(const hip_sim_launch *launch) { return launch->grid[0] * launch->block[0]; }

template <typename Arguments> const Arguments &arguments(const hip_sim_launch *launch) {
    return *static_cast<const Arguments *>(launch->kernarg);
}

struct VectorAdd {
    Vectors vectors;
    unsigned *sum;
};

struct Direct {
    DirectStep step;
    unsigned *y;
    const unsigned *x;
    unsigned size;
};

struct ScaleAdd {
    unsigned *y;
    const unsigned *x;
    unsigned *workspace;
    Scale<unsigned> scale;
};

struct Mix {
    unsigned *y;
    const unsigned *x;
    unsigned size;
};

struct DeviceStep {
    unsigned long long *state;
    unsigned us;
    unsigned long long number;
};

struct DevicePoke {
    unsigned *words;
    unsigned offset;
    unsigned count;
};

struct Module {
    unsigned *y;
    const unsigned *x;
    unsigned key;
    unsigned size;
};

struct Plugin {
    unsigned *y;
    unsigned key;
    unsigned size;
};

void plugin_step(const hip_sim_launch *launch, unsigned factor) {
    const auto &[y, key, size] = arguments<Plugin>(launch);
    for (unsigned i = 0; i < threads(launch) && i < size; i++) y[i] = step_element(y[i], factor, key);
}

struct CallersStep {
    unsigned *y;
    unsigned key;
};

struct CallersMeet {
    volatile unsigned *there;
    unsigned rank;
    unsigned ranks;
};

void callers_step(const hip_sim_launch *launch) {
    const auto &[y, key] = arguments<CallersStep>(launch);
    for (unsigned i = 0; i < threads(launch) && i < CALLERS_SIZE; i++) y[i] = callers_step_of(y[i], key);
}

constexpr unsigned DIRT = 0xdeadbeef;

} // namespace

extern "C" {

HIP_SIM_TWIN(vector_add) {
    const auto &[vectors, sum] = arguments<VectorAdd>(launch);
    for (unsigned i = 0; i < threads(launch) && i < vectors.size; i++)
        sum[i] += vectors.a[i] + vectors.b[i] + vectors.bias;
}

HIP_SIM_TWIN(device_step) {
    const auto &[state, us, number] = arguments<DeviceStep>(launch);
    state[1] += state[0] != number;
    state[0] = number + 1;
}

HIP_SIM_TWIN(device_poke) {
    const auto &[words, offset, count] = arguments<DevicePoke>(launch);
    for (unsigned i = 0; i < count; i++) words[offset + i] = i;
}

// direct_step(DirectStep, unsigned *, const unsigned *, unsigned)
HIP_SIM_TWIN(_Z11direct_step10DirectStepPjPKjj) {
    const auto &[step, y, x, size] = arguments<Direct>(launch);
    for (unsigned i = 0; i < threads(launch) && i < size; i++) y[i] = direct_element(y[i], x[i], step);
}

// demo::kernels::scale_add<unsigned>(unsigned *, const unsigned *, unsigned *, Scale<unsigned>)
HIP_SIM_TWIN(_ZN4demo7kernels9scale_addIjEEvPT_PKS2_S3_5ScaleIS2_E) {
    const auto &[y, x, workspace, scale] = arguments<ScaleAdd>(launch);
    for (unsigned i = 0; i < threads(launch) && i < scale.size; i++) {
        y[i] = scale_add_element<unsigned>(y[i], x[i], scale.alpha) + workspace[i];
        workspace[i] = DIRT;
    }
}

// demo::kernels::mix<unsigned, 3>(unsigned *, const unsigned *, unsigned)
HIP_SIM_TWIN(_ZN4demo7kernels3mixIjLi3EEEvPT_PKS2_j) {
    const auto &[y, x, size] = arguments<Mix>(launch);
    for (unsigned i = 0; i < threads(launch) && i < size; i++) y[i] = mix_element<unsigned, 3>(y[i], x[i]);
}

HIP_SIM_TWIN(two_runtimes_step_a) { plugin_step(launch, FACTOR_A); }
HIP_SIM_TWIN(two_runtimes_step_b) { plugin_step(launch, FACTOR_B); }

HIP_SIM_TWIN(module_step) {
    const auto &[y, x, key, size] = arguments<Module>(launch);
    for (unsigned i = 0; i < threads(launch) && i < size; i++) y[i] = module_element(y[i], x[i], key);
}

HIP_SIM_TWIN(callers_step) { callers_step(launch); }
HIP_SIM_TWIN(callers_own) { callers_step(launch); }
HIP_SIM_TWIN(callers_to_schedule) { arguments<unsigned *>(launch)[0] += 1; }
HIP_SIM_TWIN(callers_to_pass) { arguments<unsigned *>(launch)[0] += 1; }
HIP_SIM_TWIN(callers_to_keep) { arguments<unsigned *>(launch)[0] += 1; }
HIP_SIM_TWIN(callers_slow) { arguments<unsigned *>(launch)[0] += 1; }
HIP_SIM_TWIN(callers_quick) { arguments<unsigned *>(launch)[1] += 1; }
HIP_SIM_TWIN(callers_medium) { arguments<unsigned *>(launch)[2] += 1; }

// Returns after a minute, because a failing test must end.
HIP_SIM_TWIN(callers_meet) {
    const auto &[there, rank, ranks] = arguments<CallersMeet>(launch);
    there[rank] = 1;
    for (unsigned other = 0, waits = 0; other < ranks && waits < 600000;) {
        if (there[other]) other++;
        else {
            usleep(100);
            waits++;
        }
    }
}
}
