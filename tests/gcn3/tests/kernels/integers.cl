// Integers of all widths.
#include "prelude.h"

kernel void mix_32(global const uint *a, global const uint *b, global uint *to) {
    uint x = a[GLOBAL], y = b[GLOBAL];
    int s = (int)x, t = (int)y;
    uint r = x * y + 17;
    r ^= (uint)(((ulong)x * y) >> 32);
    r += (uint)(((long)s * t) >> 32);
    r ^= x << (y & 31) | y >> (x & 31);
    r += (uint)(s >> (t & 31));
    r ^= __builtin_popcount(x) << 3;
    r += x ? __builtin_clz(x) : 77;
    r ^= y ? __builtin_ctz(y) : 55;
    r += s < t ? x : y;
    r ^= x / (y | 1) + x % (y | 1);
    r += (uint)(s / (t | 1)) ^ (uint)(s % (t | 1));
    r ^= (x >> 5 & 0x7f) * (y << 3 >> 11);
    r += (x & 0xffffff) * (y & 0xffffff);
    r ^= (x & 0xff00ff00) | (y & ~0xff00ff00);
    r += x > y ? x - y : y - x;
    r = r << 7 | r >> 25;
    r ^= __builtin_bitreverse32(x);
    to[GLOBAL] = r + (uint)(signed char)x + (uint)(short)y;
}

kernel void mix_64(global const ulong *a, global const ulong *b, global ulong *to) {
    ulong x = a[GLOBAL], y = b[GLOBAL];
    long s = (long)x, t = (long)y;
    ulong r = x * y + 99;
    r ^= x << (y & 63) | y >> (x & 63);
    r += (ulong)(s >> (t & 63));
    r ^= x / (y | 1) + x % (y | 1);
    r += (ulong)(s / (t | 1)) - (ulong)(s % (t | 1));
    r ^= s < t ? x - y : x + y;
    r += __builtin_popcountl(x) + (x ? __builtin_clzl(x) : 1) + (y ? __builtin_ctzl(y) : 2);
    to[GLOBAL] = x == y ? 0 : x > y ? r : ~r;
}

kernel void mix_16(global const ushort *a, global const ushort *b, global ushort *to) {
    ushort x = a[GLOBAL], y = b[GLOBAL];
    short s = (short)x, t = (short)y;
    ushort r = x * y + 5;
    r ^= (ushort)(x << (y & 15)) | y >> (x & 15);
    r += s >> (t & 15);
    r ^= s < t ? x : y;
    r += x > y ? x - y : y;
    r ^= (ushort)((uchar)x * (uchar)(y >> 8));
    to[GLOBAL] = r + (signed char)(x >> 8);
}

kernel void bytes(global const uchar *a, global uchar *to) {
    uint at = GLOBAL * 4;
    for (int i = 0; i < 4; i++) to[at + i] = (uchar)(a[at + 3 - i] * 3 + i);
}
