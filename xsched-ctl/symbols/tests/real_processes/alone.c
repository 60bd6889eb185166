/* Without a C library: prints the address of its code and waits until stdin ends. */
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
__attribute__((noinline)) void ENTRY(void) {
    char text[17], byte;
    unsigned long address = (unsigned long)ENTRY;
    for (int i = 15; i >= 0; i--, address >>= 4) text[i] = "0123456789abcdef"[address & 15];
    text[16] = '\n';
    call(1, 1, (long)text, 17);
    while (call(0, 0, (long)&byte, 1) > 0) {}
    call(231, 0, 0, 0);
}
__attribute__((force_align_arg_pointer)) void _start(void) { ENTRY(); }
