// libconformance_twins.so: the work of the suite's kernels, for the simulated runtime (see hip_sim.h). Unused
// on a device.

#include "arguments.h"
#include "hip_sim.h"

namespace {

template <typename Arguments> const Arguments &arguments(const hip_sim_launch *launch) {
    return *static_cast<const Arguments *>(launch->kernarg);
}

unsigned threads(const hip_sim_launch *launch) { return launch->grid[0] * launch->block[0]; }

struct Affine {
    unsigned *data;
    unsigned count, factor, term;

    void run(const hip_sim_launch *launch) const {
        for (unsigned i = 0; i < threads(launch) && i < count; i++) data[i] = data[i] * factor + term;
    }
};

struct Copy {
    unsigned *to;
    const unsigned *from;
    unsigned count;
};

struct RecordArguments {
    Record record;
    Seen *seen;
};

struct Mixed {
    char a;
    double b;
    short c;
    float d;
    long long e;
    bool f;
    double *out;
};

// The two kernels with one name differ only in the size of their arguments.
struct LocalOfRegistration {
    unsigned *out;
    unsigned value;
};
struct LocalOfLaunch {
    unsigned terms[3];
    unsigned *out;
};

template <typename T> struct Scale {
    T *data;
    T factor;

    void run(const hip_sim_launch *launch) const {
        for (unsigned i = 0; i < threads(launch); i++) data[i] *= factor;
    }
};

} // namespace

extern "C" {

HIP_SIM_TWIN(conf_affine) { arguments<Affine>(launch).run(launch); }
HIP_SIM_TWIN(module_affine) { arguments<Affine>(launch).run(launch); }

HIP_SIM_TWIN(conf_copy) {
    const auto &[to, from, count] = arguments<Copy>(launch);
    for (unsigned i = 0; i < threads(launch) && i < count; i++) to[i] = from[i];
}

HIP_SIM_TWIN(conf_record) {
    const auto &[record, seen] = arguments<RecordArguments>(launch);
    *seen = {record.weight, sum_of(&record)};
}

HIP_SIM_TWIN(conf_mixed) {
    const auto &[a, b, c, d, e, f, out] = arguments<Mixed>(launch);
    const double values[] = {double(a), b, double(c), d, double(e), f ? 1.0 : 0.0};
    for (int i = 0; i < 6; i++) out[i] = values[i];
}

HIP_SIM_TWIN(conf_nothing) { (void)launch; }
HIP_SIM_TWIN(module_touch) { (void)launch; }

// conf_scale<unsigned>, conf_scale<float>
HIP_SIM_TWIN(_Z10conf_scaleIjEvPT_S0_) { arguments<Scale<unsigned>>(launch).run(launch); }
HIP_SIM_TWIN(_Z10conf_scaleIfEvPT_S0_) { arguments<Scale<float>>(launch).run(launch); }

HIP_SIM_TWIN(_ZL10conf_localN12_GLOBAL__N_15LocalE) {
    if (launch->kernarg_size == sizeof(LocalOfRegistration)) {
        const auto &[out, value] = arguments<LocalOfRegistration>(launch);
        out[0] = value;
    } else {
        const auto &[terms, out] = arguments<LocalOfLaunch>(launch);
        out[0] = terms[0] + terms[2];
    }
}

HIP_SIM_TWIN(conf_coordinates) {
    unsigned *out = arguments<unsigned *>(launch);
    unsigned size[3];
    for (int i = 0; i < 3; i++) size[i] = launch->grid[i] * launch->block[i];
    for (unsigned z = 0; z < size[2]; z++)
        for (unsigned y = 0; y < size[1]; y++)
            for (unsigned x = 0; x < size[0]; x++)
                out[(z * size[1] + y) * size[0] + x] = x + 100 * y + 10000 * z;
}

HIP_SIM_TWIN(conf_reverse) {
    unsigned *data = arguments<unsigned *>(launch);
    unsigned size = launch->block[0];
    // Too little local data share: the wrong result will show it.
    if (launch->dynamic_lds_size < size * sizeof(unsigned)) return;
    for (unsigned block = 0; block < launch->grid[0]; block++, data += size)
        for (unsigned i = 0; i < size / 2; i++) {
            unsigned kept = data[i];
            data[i] = data[size - 1 - i];
            data[size - 1 - i] = kept;
        }
}

HIP_SIM_TWIN(conf_bounded) {
    unsigned *data = arguments<unsigned *>(launch);
    for (unsigned i = 0; i < threads(launch); i++) data[i] = 1;
}
}
