// A kernel that the program loads as a module; compiled for the device only.

#include "steps.h"

extern "C" __global__ void module_step(unsigned *y, const unsigned *x, unsigned key, unsigned size) {
    unsigned i = global_thread_x();
    if (i < size) y[i] = module_element(y[i], x[i], key);
}
