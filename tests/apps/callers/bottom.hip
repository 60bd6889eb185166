// Below a chain of calls: launches a kernel with the expected verdict on the launch. All its calls of HIP
// return to the same address.

#include "callers.h"

namespace {

hipStream_t stream;
unsigned *y;

} // namespace

extern "C" {

__global__ void callers_to_schedule(unsigned *y) { y[0] += 1; }
__global__ void callers_to_pass(unsigned *y) { y[0] += 1; }
__global__ void callers_to_keep(unsigned *y) { y[0] += 1; }

void callers_bottom_init(unsigned *on, hipStream_t with) {
    y = on;
    stream = with;
}

// The last step of `tests/apps/origin_chain`.
unsigned long callers_bottom(const void *, unsigned long way) {
    static const void *const KERNELS[] = {reinterpret_cast<const void *>(callers_to_schedule),
                                          reinterpret_cast<const void *>(callers_to_pass),
                                          reinterpret_cast<const void *>(callers_to_keep)};
    void *arguments[] = {&y};
    return hipLaunchKernel(KERNELS[way], dim3(1), dim3(1), arguments, 0, stream);
}
}
