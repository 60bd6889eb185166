/*
 * Hints: what a program asks for itself while it runs. The controller has the last word: hints count up to the process's
 * ceiling, and what `xsched-ctl run` or `set` say goes before them.
 *
 * The functions are in libxsched_shim.so and in libxsched_cuda.so, and each speaks for the process beside its own runtime. They
 * are declared weak, so that what calls them also runs where no shim is loaded: test their address first. They never wait.
 * They return 0, or 1 for a value that is none.
 */
#ifndef XSCHED_HINTS_H
#define XSCHED_HINTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The process's priority, -255 to 255, larger is more urgent. Null: as XSCHED_AUTO_XQUEUE_PRIORITY says. */
__attribute__((weak)) int xsched_hint_priority(const int *priority);

/* Within how many microseconds each request of the process is to be done. Null: as XSCHED_AUTO_XQUEUE_DEADLINE says. */
__attribute__((weak)) int xsched_hint_deadline(const uint64_t *deadline_us);

/*
 * The same for one stream, given as its hipStream_t, of any runtime copy, or as its CUstream: both null, as the process. A null stream
 * is the calling thread's, of its CUDA context or HIP device, and need not have been used. Returns 2 if the process asks for too many
 * different things, and 3 for a stream that the shims do not know: also for the null stream of a thread without a context, and for
 * hipStreamPerThread or CU_STREAM_PER_THREAD, which have no name in other threads.
 */
__attribute__((weak)) int xsched_hint_stream(void *stream, const int *priority, const uint64_t *deadline_us);

/* The priority of a class: realtime, high, normal or low. */
__attribute__((weak)) int xsched_class_priority(const char *name, int *priority);

/*
 * The scheduling domain of the calling thread (xsched_domain.h), whichever library calls this. Null changes nothing. `before`, unless
 * it is null, gets the domain until now. With both shims loaded, libxsched_cuda.so comes first, and tells the other one.
 */
__attribute__((weak)) int xsched_thread_domain(const int *domain, int *before);

#ifdef __cplusplus
}
#endif

#endif
