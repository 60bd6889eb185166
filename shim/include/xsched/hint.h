/*
 * How urgent queues are, and what schedules the process. Hints for the controller count up to the process's ceiling.
 */
#ifndef XSCHED_HINT_H
#define XSCHED_HINT_H

#include "xsched/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To be called before the first HIP function. The policy matters for kSchedulerLocal only. */
XResult XHintSetScheduler(XSchedulerType scheduler, XPolicyType policy);

/* From PRIORITY_MIN to PRIORITY_MAX; PRIORITY_NO_EXECUTE suspends the queue until it gets another one. */
XResult XHintPriority(XQueueHandle xq, Priority prio);

/* The part of the device that the queue is promised, in percent, by the policies that partition it. */
XResult XHintUtilization(XQueueHandle xq, Utilization util);

/* The length of a time slice, where the process schedules itself. */
XResult XHintTimeslice(Timeslice ts_us);

/* Refused: give XHintDeadline, and the policy kPolicyLaxity. */
XResult XHintLaxity(XQueueHandle xq, Laxity lax_us, Priority lax_prio, Priority crit_prio);

/* Within this time after the queue gets work, that is to be done. NO_DEADLINE takes it back. */
XResult XHintDeadline(XQueueHandle xq, Deadline ddl_us);

/* How many queues with the earliest deadlines go side by side, where the process schedules itself. */
XResult XHintKDeadline(size_t k);

#ifdef __cplusplus
}
#endif

#endif
