// A kernel for the module that `shares` loads: one group advances its values, and notes when it began and ended, by the device's clock.
extern "C" __attribute__((global)) void advance(unsigned *values, unsigned rounds, unsigned key, unsigned long *times) {
    unsigned at = __builtin_amdgcn_workitem_id_x(), value = values[at];
    unsigned long begin = __builtin_amdgcn_s_memrealtime();
    for (unsigned round = 0; round < rounds; round++) {
        value = value * 1664525u + key;
        // The rounds are counted one by one, before the clock is read again.
        __asm__ volatile("" : "+v"(value));
    }
    unsigned long end = __builtin_amdgcn_s_memrealtime();
    values[at] = value;
    if (at == 0) times[0] = begin, times[1] = end;
}
