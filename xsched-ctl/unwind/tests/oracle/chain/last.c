// The innermost function: stops for the tracer in the middle of its frame.
__attribute__((noinline)) static long here(long value) {
    __asm__ volatile("int3");
    return value + 1;
}

long THIS(long value) { return here(value) + 1; }
