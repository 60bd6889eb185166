// One copy of the runtime in the program `shares`.
#include <stdint.h>

enum { WIDTH = 64, MOST = 64 };

// When a kernel began and ended, by the device's clock.
struct Executed {
    uint64_t began, ended;
};

// Gets ready.
void share_begin(void);
// Launches a kernel of so many rounds, which works on what the one before has computed: the request's kernel of this index.
void share_launch(unsigned index, unsigned rounds);
// Waits for the request's kernels.
void share_wait(unsigned kernels, struct Executed *times);
// How many of the WIDTH values are what the host computes.
unsigned share_right(void);
