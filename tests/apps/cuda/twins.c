/* The work of the kernels in kernels.h, on the simulated device. */

#include "hip_sim.h"

HIP_SIM_TWIN(step) {
    const struct {
        unsigned *word;
        unsigned value;
    } *arguments = launch->kernarg;
    if (hip_sim_check_access(launch, arguments->word, sizeof *arguments->word)) return;
    *arguments->word = *arguments->word * 5 + arguments->value;
}

HIP_SIM_TWIN(burn) { (void)launch; }

HIP_SIM_TWIN(ncclDevKernel_burn) { (void)launch; }

/* Those of the field kit's minimal client (`xsched-ctl/field/kernels`), in HIP and in CUDA. */

HIP_SIM_TWIN(field_step) { hip_sim_twin_step(launch); }

HIP_SIM_TWIN(field_burn) { (void)launch; }

HIP_SIM_TWIN(field_nothing) { (void)launch; }
