#include "direct_step.hpp"

__global__ void direct_step(DirectStep step, unsigned *y, const unsigned *x, unsigned size) {
    unsigned i = global_thread_x();
    if (i < size) y[i] = direct_element(y[i], x[i], step);
}

hipError_t launch_direct_step(const DirectStep &step, unsigned *y, const unsigned *x, unsigned size,
                              hipStream_t stream) {
    direct_step<<<1, size, 0, stream>>>(step, y, x, size);
    return hipGetLastError();
}
