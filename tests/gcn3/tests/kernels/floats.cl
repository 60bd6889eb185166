// Half, single and double precision.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "prelude.h"

// One operation of each kind: results side by side.
kernel void single(global const float *a, global const float *b, global float *to) {
    float x = a[GLOBAL], y = b[GLOBAL];
    global float *r = to + GLOBAL * 16;
    r[0] = x + y;
    r[1] = x - y;
    r[2] = x * y;
    r[3] = x / y;
    r[4] = __builtin_fmaf(x, y, 1.5f);
    r[5] = __builtin_sqrtf(x);
    r[6] = __builtin_floorf(x);
    r[7] = __builtin_ceilf(x);
    r[8] = __builtin_truncf(x);
    r[9] = __builtin_rintf(x);
    r[10] = __builtin_fminf(x, y);
    r[11] = __builtin_fmaxf(x, y);
    r[12] = (float)(int)x;
    r[13] = (float)(uint)y;
    r[14] = x < y ? -x : __builtin_fabsf(y);
    r[15] = x == x ? 1.0f : 2.0f;
}

kernel void twice(global const double *a, global const double *b, global double *to) {
    double x = a[GLOBAL], y = b[GLOBAL];
    global double *r = to + GLOBAL * 16;
    r[0] = x + y;
    r[1] = x - y;
    r[2] = x * y;
    r[3] = x / y;
    r[4] = __builtin_fma(x, y, 1.5);
    r[5] = __builtin_sqrt(x);
    r[6] = __builtin_floor(x);
    r[7] = __builtin_ceil(x);
    r[8] = __builtin_trunc(x);
    r[9] = __builtin_rint(x);
    r[10] = __builtin_fmin(x, y);
    r[11] = __builtin_fmax(x, y);
    r[12] = (double)(int)x;
    r[13] = (double)(float)y;
    r[14] = x < y ? -x : __builtin_fabs(y);
    r[15] = (double)(long)x;
}

kernel void halves(global const half *a, global const half *b, global half *to) {
    half x = a[GLOBAL], y = b[GLOBAL];
    global half *r = to + GLOBAL * 8;
    r[0] = x + y;
    r[1] = x - y;
    r[2] = x * y;
    r[3] = x / y;
    r[4] = (half)((float)x * 3.0f);
    r[5] = x < y ? x : y;
    r[6] = __builtin_fmaf16(x, y, (half)1.5);
    r[7] = (half)(int)x;
}

// Functions that the hardware approximates.
kernel void approximated(global const float *a, global float *to) {
    float x = a[GLOBAL];
    global float *r = to + GLOBAL * 8;
    r[0] = __builtin_amdgcn_rcpf(x);
    r[1] = __builtin_amdgcn_rsqf(x);
    r[2] = __builtin_amdgcn_exp2f(x);
    r[3] = __builtin_amdgcn_logf(x);
    r[4] = __builtin_amdgcn_sinf(x);
    r[5] = __builtin_amdgcn_cosf(x);
    r[6] = __builtin_amdgcn_fractf(x);
    r[7] = __builtin_amdgcn_frexp_mantf(x);
}

kernel void classes(global const float *a, global uint *to) {
    float x = a[GLOBAL];
    uint found = 0;
#define CLASS(bit) found |= __builtin_amdgcn_classf(x, 1 << bit) ? 1u << bit : 0;
    CLASS(0) CLASS(1) CLASS(2) CLASS(3) CLASS(4) CLASS(5) CLASS(6) CLASS(7) CLASS(8) CLASS(9)
    to[GLOBAL] = found;
}
