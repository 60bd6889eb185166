// Seven libraries on the path to HIP, and an independent witness of the call chains.
#pragma once

#include <stdint.h>

extern "C" {

// Level n is in libdeep_<n>.so and calls level n + 1; the last one calls HIP. `way` selects a path.
int deep_1(unsigned way);
int deep_2(unsigned way);
int deep_3(unsigned way);
int deep_4(unsigned way);
int deep_5(unsigned way);
int deep_6(unsigned way);
int deep_7(unsigned way);

// Records the chain of callers of its caller, as the compiler's runtime (`_Unwind_Backtrace`) sees it.
void deep_observe(void);
}
