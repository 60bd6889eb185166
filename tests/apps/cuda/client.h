/* What the programs for libcuda share. */

#ifndef CUDA_CLIENT_H
#define CUDA_CLIENT_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda_subset.h"

#define CHECK(call)                                                                     \
    do {                                                                                \
        CUresult error_ = (call);                                                       \
        if (error_ != CUDA_SUCCESS) {                                                   \
            fprintf(stderr, "line %d: %s = %d\n", __LINE__, #call, error_);             \
            exit(2);                                                                    \
        }                                                                               \
    } while (0)

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void begin(void) {
    printf("ready\n");
    fflush(stdout);
    while (getchar() != '\n' && !feof(stdin)) {}
}

static double number(int argc, char **argv, int index) { return index < argc ? atof(argv[index]) : 0; }

#endif
