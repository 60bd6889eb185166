// Pairs of halves of dwords, and halves of registers: gfx9 has instructions for them that GCN3 lacks, for the same results.
#include "prelude.h"
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef half half2 __attribute__((ext_vector_type(2)));
typedef short short2 __attribute__((ext_vector_type(2)));
typedef ushort ushort2 __attribute__((ext_vector_type(2)));

kernel void float_pairs(global const half2 *a, global const half2 *b, global half2 *to) {
    half2 x = a[GLOBAL], y = b[GLOBAL];
    global half2 *r = to + GLOBAL * 8;
    r[0] = x + y;
    r[1] = x * y;
    r[2] = __builtin_elementwise_fma(x, y, (half2)(1.5h, -0.25h));
    r[3] = __builtin_elementwise_min(x, y);
    r[4] = __builtin_elementwise_max(x, -y);
    r[5] = x.yx - y;
    r[6] = __builtin_elementwise_fma(x.yx, -y, x);
    r[7] = (half2)(x.x * y.y + x.y, x.y - y.x);
}

kernel void integer_pairs(global const ushort2 *a, global const ushort2 *b, global ushort2 *to) {
    ushort2 x = a[GLOBAL], y = b[GLOBAL];
    short2 s = __builtin_astype(x, short2), t = __builtin_astype(y, short2);
    global ushort2 *r = to + GLOBAL * 8;
    r[0] = x + y;
    r[1] = x * y + x.yx;
    r[2] = (ushort2)(x - y.yx) << (y & (ushort)15);
    r[3] = x >> (y & (ushort)15);
    r[4] = __builtin_astype(s >> (short2)(t & (short)15), ushort2);
    r[5] = __builtin_elementwise_min(x, y) ^ __builtin_elementwise_max(x, y.yx);
    r[6] = __builtin_astype(__builtin_elementwise_min(s, t), ushort2) + __builtin_astype(__builtin_elementwise_max(s, t.yx), ushort2);
    r[7] = __builtin_elementwise_add_sat(x, y) ^ __builtin_astype(__builtin_elementwise_sub_sat(s, t), ushort2);
}

// Elements of one and two bytes, by memory, group memory and private memory.
kernel void small_elements(global const ushort *a, global const uchar *b, global ushort *to, global uchar *bytes) {
    local ushort words[256];
    local uchar small[256];
    ushort kept[8];
    uint i = LOCAL;
    words[i] = a[GLOBAL] * 3;
    small[i] = b[GLOBAL] ^ 0x5a;
    for (uint k = 0; k < 8; k++) kept[(i + k) & 7] = a[GLOBAL] >> k;
    sync();
    ushort2 pair = (ushort2)(words[255 - i], (ushort)(signed char)small[i ^ 1]);
    pair = pair * (ushort2)(5, 7) + (ushort2)(kept[i & 7], kept[(i + 3) & 7]);
    to[GLOBAL * 2] = pair.y;
    to[GLOBAL * 2 + 1] = pair.x;
    bytes[GLOBAL] = (uchar)(pair.y >> 8);
}

kernel void sums(global const uint *a, global const uint *b, global uint *to) {
    uint x = a[GLOBAL], y = b[GLOBAL];
    global uint *r = to + GLOBAL * 8;
    r[0] = (x << (y & 31)) + y;
    r[1] = (x + y) << (y & 31);
    r[2] = x + y + (x >> 7);
    r[3] = (x & y) | 0x1234;
    r[4] = (x ^ y) + x;
    r[5] = (x << 5) | y;
    r[6] = (uint)(ushort)x * (uint)(ushort)y + y;
    r[7] = x | y | (y >> 3);
}
