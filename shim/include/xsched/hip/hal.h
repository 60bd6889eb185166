/* Queues of HIP streams. */
#ifndef XSCHED_HIP_HAL_H
#define XSCHED_HIP_HAL_H

#include "xsched/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As HIP's own headers declare it, so that they may come before or after. */
typedef struct ihipStream_t *hipStream_t;

/* The hardware queue of a stream, which has one: if there is one already, that is returned. The null stream is one. */
XResult HipQueueCreate(HwQueueHandle *hwq, hipStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
