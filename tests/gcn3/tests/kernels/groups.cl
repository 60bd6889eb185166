// Work groups: their memory, barriers, atomics, and values from other lanes.
#include "prelude.h"

kernel void sum(global const float *from, global float *to) {
    local float values[256];
    uint i = LOCAL;
    values[i] = from[GLOBAL];
    sync();
    for (uint step = 128; step > 0; step /= 2) {
        if (i < step) values[i] += values[i + step];
        sync();
    }
    if (i == 0) to[GROUP] = values[0];
}

// Running sums of 256 elements.
kernel void scan(global const uint *from, global uint *to) {
    local uint values[2][256];
    uint i = LOCAL, side = 0;
    values[0][i] = from[GLOBAL];
    sync();
    for (uint step = 1; step < 256; step *= 2) {
        values[1 - side][i] = values[side][i] + (i >= step ? values[side][i - step] : 0);
        side = 1 - side;
        sync();
    }
    to[GLOBAL] = values[side][i];
}

kernel void histogram(global const uint *from, global uint *to) {
    local uint counts[16];
    if (LOCAL < 16) counts[LOCAL] = 0;
    sync();
    __scoped_atomic_fetch_add(&counts[from[GLOBAL] & 15], 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
    sync();
    if (LOCAL < 16)
        __scoped_atomic_fetch_add(&to[LOCAL], counts[LOCAL], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

// Atomics on memory: sums, extremes, bits, and a loop of compare and exchange.
kernel void atomics(global const uint *from, global uint *to, global ulong *wide) {
    uint value = from[GLOBAL];
    __scoped_atomic_fetch_add(&to[0], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_max(&to[1], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_min((global int *)&to[2], (int)value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_or(&to[3], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_and(&to[4], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_xor(&to[5], value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    uint old = to[6], next;
    do next = old * 3 + 1;
    while (!__scoped_atomic_compare_exchange_n(&to[6], &old, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST,
                                               __MEMORY_SCOPE_DEVICE));
    uint before = __scoped_atomic_fetch_add(&to[7], 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    to[8 + before] = before;
    __scoped_atomic_fetch_add(&wide[0], (ulong)value << 20, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_max((global long *)&wide[1], (long)value * -3, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

kernel void lanes(global const uint *from, global uint *to) {
    uint value = from[GLOBAL];
    global uint *r = to + GLOBAL * 8;
    r[0] = (uint)__builtin_amdgcn_ds_bpermute((LOCAL * 7 + 3) << 2, (int)value);
    r[1] = (uint)__builtin_amdgcn_ds_permute((LOCAL * 5 + 1) << 2, (int)value);
    r[2] = (uint)__builtin_amdgcn_ds_swizzle((int)value, 0x041f);
    r[3] = (uint)__builtin_amdgcn_update_dpp(7, (int)value, 0x1b, 15, 15, 0);
    r[4] = (uint)__builtin_amdgcn_update_dpp(7, (int)value, 0x111, 15, 15, 0);
    r[5] = (uint)__builtin_amdgcn_update_dpp(7, (int)value, 0x142, 0xa, 15, 0);
    r[6] = (uint)__builtin_amdgcn_readlane((int)value, 9) + (uint)__builtin_amdgcn_readfirstlane((int)value);
    r[7] = (uint)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, value));
}

// C = A * B for matrices of n * n, in tiles of 16 * 16.
kernel void sgemm(global const float *a, global const float *b, global float *c, int n) {
    local float tile_a[16][16], tile_b[16][16];
    int x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
    int column = __builtin_amdgcn_workgroup_id_x() * 16 + x, row = __builtin_amdgcn_workgroup_id_y() * 16 + y;
    float sum = 0;
    for (int begin = 0; begin < n; begin += 16) {
        tile_a[y][x] = a[row * n + begin + x];
        tile_b[y][x] = b[(begin + y) * n + column];
        sync();
        for (int k = 0; k < 16; k++) sum = __builtin_fmaf(tile_a[y][k], tile_b[k][x], sum);
        sync();
    }
    c[row * n + column] = sum;
}

// Waits until the host, or another kernel, has written: `s_sleep` gives the device to others.
kernel void waits(global const uint *flag, global uint *to) {
    while (__scoped_atomic_load_n(flag, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) == 0) __builtin_amdgcn_s_sleep(1);
    to[LOCAL] = *flag + LOCAL;
}
