// A typical function with -O2 -fomit-frame-pointer: no frame pointer, callee-saved registers pushed.
long NEXT(long);

__attribute__((noinline)) static long mix(long value) { return value * 31 + 7; }

long THIS(long value) {
    long before = mix(value), more = mix(before);
    return NEXT(value + 1) + before + more;
}
