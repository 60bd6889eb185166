// The program's own kernel, launched with `<<<..>>>`.

#ifndef DIRECT_STEP_HPP
#define DIRECT_STEP_HPP

#include "steps.h"

hipError_t launch_direct_step(const DirectStep &step, unsigned *y, const unsigned *x, unsigned size,
                              hipStream_t stream);

#endif
