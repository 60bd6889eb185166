/* Needs one symbol of libstdc++, in its version, as everything written in C++ does. */
extern void _ZSt9terminatev(void);

void (*const needed)(void) = _ZSt9terminatev;
