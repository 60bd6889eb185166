// What the programs of this folder share: each prints every call with its status and goes on after errors, so that two runs can be
// compared line by line.
#pragma once
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int failures;

// Once for each call that is made once.
#define SAY(call)                                                                                                  \
    do {                                                                                                           \
        long status_ = (long)(call);                                                                               \
        printf("%s = %ld\n", #call, status_);                                                                      \
        failures += status_ != 0;                                                                                  \
    } while (0)

// Silent if all is well: for calls in loops.
#define OK(call)                                                                                                   \
    do {                                                                                                           \
        long status_ = (long)(call);                                                                               \
        if (status_) printf("%s = %ld\n", #call, status_);                                                         \
        failures += status_ != 0;                                                                                  \
    } while (0)

static inline int ended() {
    printf("failures %d\n", failures);
    return failures ? 1 : 0;
}

// Before the program begins it uses the device once. With ROCM_TEST_WAIT_FOR it then waits for that file, which is made when a
// controller has taken it on.
static const int waited = [] {
    const char *file = getenv("ROCM_TEST_WAIT_FOR");
    void *memory;
    if (hipMalloc(&memory, 4096) == hipSuccess && hipMemset(memory, 0, 4096) == hipSuccess) (void)hipFree(memory);
    while (file && access(file, F_OK)) usleep(10000);
    return 0;
}();

// How often each program does its work.
enum { ROUNDS = 20 };
