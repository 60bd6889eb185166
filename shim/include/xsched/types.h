/*
 * Types, numbers and handles of the interface that programs written for XSched use. Names and values are XSched's, so such programs
 * compile unchanged. What each means with this library, and what is refused: docs/xsched.md.
 */
#ifndef XSCHED_TYPES_H
#define XSCHED_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device, and its number. No function takes one. */
typedef uint64_t XDevice;
typedef uint32_t XDeviceId;

/*
 * Handles are numbers, valid in the process that was given them until the object is destroyed. A stale handle, or another process's,
 * is answered with kXSchedErrorNotFound.
 */
typedef uint64_t XQueueHandle;
typedef uint64_t HwQueueHandle;
typedef uint64_t HwCommandHandle;

/* What every function returns. */
typedef enum {
    kXSchedSuccess = 0,
    /* The runtime has failed, or a command before. */
    kXSchedErrorHardware = 1,
    kXSchedErrorInvalidValue = 2,
    kXSchedErrorNotFound = 3,
    /* Not at this time, or not by this thread. */
    kXSchedErrorNotAllowed = 4,
    /* It has no meaning here. The log (XSCHED_LOG) says why, once. */
    kXSchedErrorNotSupported = 5,
    /* Never returned. */
    kXSchedErrorBadResponse = 6,
    /* The library itself has failed. */
    kXSchedErrorUnknown = 999
} XResult;

/* Of these, kPlatformHIP is served. */
typedef enum {
    kPlatformUnknown = 0,
    kPlatformVPI = 1,
    kPlatformCUDA = 2,
    kPlatformCUDLA = 3,
    kPlatformHIP = 4,
    kPlatformAscend = 5,
    kPlatformOpenCL = 6,
    kPlatformLevelZero = 7
} XPlatform;

typedef enum {
    kDeviceTypeUnknown = 0,
    kDeviceTypeCPU = 1,
    kDeviceTypeGPU = 2,
    kDeviceTypeNPU = 3,
    kDeviceTypeFPGA = 4,
    kDeviceTypeASIC = 5,
    kDeviceTypeMCA = 6
} XDeviceType;

/* How a queue's commands are stopped: not launched any more; kept on the device as well; 3 is the same as 2. */
typedef enum {
    kPreemptLevelUnknown = 0,
    kPreemptLevelBlock = 1,
    kPreemptLevelDeactivate = 2,
    kPreemptLevelInterrupt = 3,
    kPreemptLevelMax
} XPreemptLevel;

/* Ready: it has commands that are not complete. */
typedef enum {
    kQueueStateUnknown = 0,
    kQueueStateIdle = 1,
    kQueueStateReady = 2
} XQueueState;

/* No function takes or returns these. */
typedef enum {
    kQueueFeatureNone = 0x0000,
    kQueueFeatureAsyncSubmit = 0x0001,
    kQueueFeatureDynamicLevel = 0x0002,
    kQueueFeatureDynamicThreshold = 0x0004,
    kQueueFeatureDynamicBatchSize = 0x0008,
    kQueueFeatureSyncSuspend = 0x0010,
    kQueueFeatureResumeDropCommands = 0x0020,
    kQueueFeatureMaskAll = -1
} XQueueFeature;

typedef enum {
    kQueueCreateFlagNone = 0x0000,
    /* Refused. */
    kQueueCreateFlagBlockingSubmit = 0x0001,
    kQueueCreateFlagMaskAll = -1
} XQueueCreateFlag;

typedef enum {
    kQueueSuspendFlagNone = 0x0000,
    /* Returns when what was launched is complete. */
    kQueueSuspendFlagSyncHwQueue = 0x0001,
    /* Suspends when everything so far is complete; both flags. */
    kQueueSuspendFlagWaitAll = 0x0002,
    kQueueSuspendFlagWaitIdle = 0x0004,
    kQueueSuspendFlagMaskAll = -1
} XQueueSuspendFlag;

typedef enum {
    kQueueResumeFlagNone = 0x0000,
    /* Drops nothing, like XSched's first level. */
    kQueueResumeFlagDropCommands = 0x0001,
    kQueueResumeFlagMaskAll = -1
} XQueueResumeFlag;

/* What schedules the process: nothing, the process its own queues, or the controller all processes. */
typedef enum {
    kSchedulerUnknown = 0,
    kSchedulerAppManaged = 1,
    kSchedulerLocal = 2,
    kSchedulerGlobal = 3,
    kSchedulerMax
} XSchedulerType;

typedef enum {
    kPolicyUnknown = 0,
    kPolicyHighestPriorityFirst = 1,
    /* Refused. */
    kPolicyHeterogeneousHighestPriorityFirst = 2,
    kPolicyCPUHighestPriorityFirst = 3,
    kPolicyUtilizationPartition = 4,
    kPolicyProcessUtilizationPartition = 5,
    /* Refused. */
    kPolicyStrictProcessUtilizationPartition = 6,
    kPolicyKEarliestDeadlineFirst = 7,
    kPolicyLaxity = 8,
    /* Refused. */
    kPolicyActiveWindowFirst = 9,
    kPolicyCompletelyFairScheduler = 10,
    kPolicyMultiLevelFeedbackQueue = 11,
    kPolicyMax
} XPolicyType;

/*
 * A command: makes calls that put work on the stream of this hardware queue. Runs on a thread of the library's, whose current device is
 * the stream's, with 1 MiB of stack. It may launch on other streams too. It must not wait for its own queue, nor
 * destroy its stream, throw an exception, or end its thread. Commands that were not launched when the process ends are not called any more.
 */
typedef XResult (*LaunchCallback)(HwQueueHandle, void *);

/* Larger is more urgent. */
typedef int32_t Priority;
#define PRIORITY_NO_EXECUTE -256
#define PRIORITY_MIN -255
#define PRIORITY_DEFAULT 0
#define PRIORITY_MAX 255

/* Percent of the device. */
typedef int32_t Utilization;
#define UTILIZATION_MIN 0
#define UTILIZATION_DEFAULT 100
#define UTILIZATION_MAX 100

/* Microseconds. */
typedef int64_t Timeslice;
#define TIMESLICE_MIN 100
#define TIMESLICE_DEFAULT 5000
#define TIMESLICE_MAX 10000000
#define TIMESLICE_UNLIMITED UINT64_MAX

/* Microseconds. */
typedef int64_t Laxity;
#define NO_LAXITY -1

/* Microseconds. */
typedef int64_t Deadline;
#define NO_DEADLINE -1

#ifdef __cplusplus
}
#endif

#endif
