/*
 * Queues that a program fills, suspends and waits for itself. A queue belongs to a stream: the program's other calls on that stream
 * keep their order with the commands that it submits. docs/xsched.md has the details.
 */
#ifndef XSCHED_XQUEUE_H
#define XSCHED_XQUEUE_H

#include "xsched/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The queue of a hardware queue, which has one at most: if there is one already, that is returned. */
XResult XQueueCreate(XQueueHandle *xq, HwQueueHandle hwq, int64_t level, int64_t flags);

/* Resumes the queue, waits until it is done, and forgets it. The stream is scheduled as before. */
XResult XQueueDestroy(XQueueHandle xq);

/* The queue of a hardware queue, if it has one. With XSCHED_AUTO_XQUEUE=ON it always has. */
XResult XQueueGet(XQueueHandle *xq, HwQueueHandle hwq);

/* How its commands may be stopped, from the next one on: an XPreemptLevel. */
XResult XQueueSetPreemptLevel(XQueueHandle xq, int64_t level);

/*
 * Beside more urgent queues, so many commands may be on the device, and so many are launched at once. A number below 1 changes nothing.
 * A limit of the controller's goes before.
 */
XResult XQueueSetLaunchConfig(XQueueHandle xq, int64_t threshold, int64_t batch_size);

/* Takes the command and returns. The command runs when everything before it on the stream was launched. */
XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle hw_cmd);

/* Waits until a command that was submitted is complete: one of the last 4096. Returns the error of the first command that failed. */
XResult XQueueWait(XQueueHandle xq, HwCommandHandle hw_cmd);

/* The same for all commands so far, and for the program's other calls on the stream. */
XResult XQueueWaitAll(XQueueHandle xq);

/* Whether it has anything to do. */
XResult XQueueQuery(XQueueHandle xq, XQueueState *state);

/*
 * Launches nothing more on the stream until XQueueResume: neither commands nor other calls. A thread that waits for the stream waits
 * for that as well. What another stream's work needs of it is launched all the same, so that nothing waits for ever.
 */
XResult XQueueSuspend(XQueueHandle xq, int64_t flags);

/* Ends that. */
XResult XQueueResume(XQueueHandle xq, int64_t flags);

/* How many commands, and other calls that put something on the stream, there were since the queue was created. */
XResult XQueueProfileHwCommandCount(XQueueHandle xq, int64_t *count);

/* Forgets a hardware queue that has no queue. The stream stays. */
XResult HwQueueDestroy(HwQueueHandle hwq);

/* Runs a command now, on the calling thread, and returns its answer. Its calls overtake nothing that is on their stream. */
XResult HwQueueLaunch(HwQueueHandle hwq, HwCommandHandle hw_cmd);

/* Waits until the stream is done. */
XResult HwQueueSynchronize(HwQueueHandle hwq);

/* A command that calls a function of the program's, once. */
XResult HwCommandCreateCallback(HwCommandHandle *hw_cmd, LaunchCallback launch, void *data);

/* Forgets a command. One that was submitted still runs. */
XResult HwCommandDestroy(HwCommandHandle hw_cmd);

#ifdef __cplusplus
}
#endif

#endif
