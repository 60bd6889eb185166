// Leaves by a jump: no frame of this library is on the stack when the next one runs.
long NEXT(long);

long THIS(long value) { return NEXT(value + 1); }
