// Variable arguments, an overaligned local and a block of unknown size: the compiler realigns the stack, and finds the
// frame through a pointer that it has saved below the frame pointer.
#include <alloca.h>
#include <stdarg.h>

long NEXT(long);

struct wide {
    _Alignas(64) long words[8];
};

__attribute__((noinline)) static void fill(volatile long *words, int count, long value) {
    for (int i = 0; i < count; i++) words[i] = value + i;
}

__attribute__((noinline)) static long varied(int count, ...) {
    va_list arguments;
    va_start(arguments, count);
    struct wide wide;
    long *block = alloca((unsigned)count * 24);
    fill(wide.words, 8, count);
    fill(block, count, va_arg(arguments, long));
    long result = NEXT(va_arg(arguments, long));
    va_end(arguments);
    return result + wide.words[3] + block[0];
}

long THIS(long value) { return varied(5, 11L, value + 1, 3L, 4L, 5L, 6L, 7L, 8L) + 1; }
