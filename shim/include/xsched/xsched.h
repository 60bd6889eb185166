/* All of XSched's interface but for the platforms: those are in headers such as xsched/hip/hal.h. */
#ifndef XSCHED_XSCHED_H
#define XSCHED_XSCHED_H

#include "xsched/hint.h"
#include "xsched/types.h"
#include "xsched/xqueue.h"

#endif
