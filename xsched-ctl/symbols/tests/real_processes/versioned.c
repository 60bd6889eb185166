/* One name in two versions, at two addresses. */
__asm__(".symver old_twice,twice@V1");
__asm__(".symver new_twice,twice@@V2");
int old_twice(int x) { return x + x; }
int new_twice(int x) { return (x << 1) ^ 4096; }
int once(int x) { return x; }
static int chosen(int x) { return -x; }
static void *choose(void) { return (void *)chosen; }
int indirect(int x) __attribute__((ifunc("choose")));
int number = 7;
