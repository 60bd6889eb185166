// A library that declares the domain of its own calls, and calls HIP through another library.

#include "callers.h"
#include "xsched_domain.h"

extern "C" {

int speaker_step(int domain, unsigned *y, unsigned key, hipStream_t stream) {
    if (domain >= 0 && xschedSetDomain(static_cast<hipSchedulingDomain_t>(domain))) return 999;
    // A call of its own, and one through a library that has declared nothing.
    if (hipMemsetAsync(y, 0, CALLERS_SIZE * sizeof(unsigned), stream)) return 998;
    return rocblas_sstep(nullptr, y, key, stream);
}

int speaker_domain() {
    hipSchedulingDomain_t domain = HIP_SCHED_DOMAIN_AUTO;
    return hipGetSchedulingDomain && !hipGetSchedulingDomain(&domain) ? domain : -1;
}
}
