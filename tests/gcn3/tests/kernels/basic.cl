// Vectors, loops that end at different times, private arrays.
#include "prelude.h"

kernel void saxpy(float a, global const float *x, global float *y, int n) {
    int i = GLOBAL;
    if (i < n) y[i] = a * x[i] + y[i];
}

// Steps to 1 of Collatz's sequence.
kernel void collatz(global const uint *from, global uint *to) {
    uint n = from[GLOBAL], steps = 0;
    while (n != 1 && steps < 1000) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    }
    to[GLOBAL] = steps;
}

kernel void branches(global const int *from, global int *to) {
    int value = from[GLOBAL], sum = 0;
    for (int i = 0; i < (value & 15); i++) {
        if (i == 7 && (value & 16)) break;
        switch ((value + i) & 7) {
        case 0: sum += 3; break;
        case 1: sum ^= value; break;
        case 2: sum -= i; continue;
        case 5: sum = sum * 5 + 1; break;
        default: sum += i * value;
        }
        if (sum > 100000) sum >>= 3;
    }
    to[GLOBAL] = sum;
}

// An array that is indexed by data lies in private memory.
kernel void private_array(global const uint *from, global uint *to) {
    uint values[32];
    uint seed = from[GLOBAL];
    for (int i = 0; i < 32; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = seed >> 8;
    }
    for (int i = 0; i < 32; i++) {
        uint other = values[i] & 31, kept = values[i];
        values[i] = values[other];
        values[other] = kept;
    }
    uint result = 0;
    for (int i = 0; i < 32; i++) result = result * 31 + values[(i * 7) & 31];
    to[GLOBAL] = result;
}

// The address of a private array as a flat one.
static __attribute__((noinline)) uint through_pointer(uint *values, uint at) { return values[at & 7] + values[7]; }

kernel void private_pointer(global const uint *from, global uint *to) {
    uint values[8];
    for (uint i = 0; i < 8; i++) values[i] = from[GLOBAL] * (i + 1);
    to[GLOBAL] = through_pointer(values, from[GLOBAL]);
}

// The place of each work item in three dimensions.
kernel void places(global uint *to, uint width, uint height) {
    uint x = __builtin_amdgcn_workgroup_id_x() * 5 + __builtin_amdgcn_workitem_id_x();
    uint y = __builtin_amdgcn_workgroup_id_y() * 4 + __builtin_amdgcn_workitem_id_y();
    uint z = __builtin_amdgcn_workgroup_id_z() * 3 + __builtin_amdgcn_workitem_id_z();
    to[(z * height + y) * width + x] += x | y << 8 | z << 16 | 1 << 24;
}

kernel void reads_nothing(global const uint *from, global uint *to) { to[LOCAL] = from[LOCAL]; }
