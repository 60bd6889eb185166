// The kernels of the minimal client. `kernels.hipfb.gz` has them for the processors that DESIGN.md lists; for others HIPRTC
// compiles this text on the node.

#define KERNEL extern "C" __attribute__((global)) void

KERNEL field_nothing() {}

// Steps do not commute, so a launch that is lost, repeated or reordered changes the result.
KERNEL field_step(unsigned *word, unsigned value) { *word = *word * 5 + value; }

// Takes a time in proportion to `count`, on every compute unit that has a block of it.
KERNEL field_burn(unsigned count, unsigned *word) {
    unsigned x = __builtin_amdgcn_workitem_id_x();
    for (unsigned i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        asm volatile("" : "+v"(x));
    }
    if (x == 12345) *word = x;
}
