// libdifferential_twins.so: the kernels' work, for the simulated runtime.

#include "hip_sim.h"
#include "kernels.h"

namespace {

template <typename Arguments> const Arguments &arguments(const hip_sim_launch *launch) {
    return *static_cast<const Arguments *>(launch->kernarg);
}

void mix(unsigned *to, const unsigned *from, unsigned key) {
    for (unsigned i = 0; i < WORDS; i++) to[i] = mixed(to[i], from[i], key);
}

struct Mix {
    unsigned *to;
    const unsigned *from;
    unsigned key;
};

struct Many {
    unsigned char a;
    unsigned *to;
    unsigned short b;
    const unsigned *from;
    double c;
    unsigned d;
    unsigned long long e;
    float f;
    unsigned char g;
    unsigned key;
};

} // namespace

extern "C" {

HIP_SIM_TWIN(diff_mix) {
    const auto &[to, from, key] = arguments<Mix>(launch);
    mix(to, from, key);
}

HIP_SIM_TWIN(diff_wide) {
    const Wide &wide = arguments<Wide>(launch);
    mix(wide.to, wide.from, key_of(wide));
}

HIP_SIM_TWIN(diff_many) {
    const auto &[a, to, b, from, c, d, e, f, g, key] = arguments<Many>(launch);
    mix(to, from, key_of(a, b, c, d, e, f, g, key));
}

HIP_SIM_TWIN(diff_nothing) { (void)launch; }
}
