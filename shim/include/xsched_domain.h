/*
 * Scheduling domains: what a program or a library says of its own HIP calls.
 *
 * Called from a library, it speaks for all calls that go through this library, of any thread. Called from the program
 * itself, it speaks for the calls of the calling thread. What was said so goes before what rules find out.
 *
 * Both functions are in libxsched_shim.so. They are declared weak, so that what calls them also runs where the shim is not
 * loaded: test their address first, or use the inline functions below.
 */
#ifndef XSCHED_DOMAIN_H
#define XSCHED_DOMAIN_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hipSchedulingDomain_t {
    /* The rules decide. */
    HIP_SCHED_DOMAIN_AUTO = 0,
    /* Others wait for these calls: they are never suspended. */
    HIP_SCHED_DOMAIN_SYSTEM = 1,
    /* Ordinary work, scheduled like all of its process. */
    HIP_SCHED_DOMAIN_APPLICATION = 2
} hipSchedulingDomain_t;

/* Return a hipError_t: 0, or 1 (hipErrorInvalidValue) for a domain that is none, or a null pointer. */
__attribute__((weak)) int hipSetSchedulingDomain(hipSchedulingDomain_t domain);
__attribute__((weak)) int hipGetSchedulingDomain(hipSchedulingDomain_t *domain);

#ifdef __cplusplus
}
#endif

/* The same where the shim may be missing: nothing happens then, and the answer is 0. */
static inline int xschedSetDomain(hipSchedulingDomain_t domain) {
    return hipSetSchedulingDomain ? hipSetSchedulingDomain(domain) : 0;
}

#endif
