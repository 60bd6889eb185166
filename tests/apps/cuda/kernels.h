/* Kernels of the programs for CUDA, as PTX: they run on the genuine libcuda, and by their twins on the simulated one. */

#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

/* step(word, value): *word = *word * 5 + value, so a result tells the order of all steps.
 * burn(count): takes a time in proportion to `count`, on every multiprocessor that has a block of it.
 * ncclDevKernel_burn(count): the same under a name by which it counts as a collective. */
#define BURN(NAME)                                  \
    ".visible .entry " NAME "(\n"                   \
    "    .param .u32 burn_count,\n"                 \
    "    .param .u64 burn_word\n"                   \
    ")\n"                                           \
    "{\n"                                           \
    "    .reg .b32 %r<5>;\n"                        \
    "    .reg .b64 %a<3>;\n"                        \
    "    .reg .pred %p<3>;\n"                       \
    "    ld.param.u32 %r1, [burn_count];\n"         \
    "    mov.u32 %r2, 0;\n"                         \
    "    mov.u32 %r3, %tid.x;\n"                    \
    "$again:\n"                                     \
    "    mad.lo.u32 %r3, %r3, 1664525, 1013904223;\n" \
    "    add.u32 %r2, %r2, 1;\n"                    \
    "    setp.lt.u32 %p1, %r2, %r1;\n"              \
    "    @%p1 bra $again;\n"                        \
    "    setp.ne.u32 %p2, %r3, 12345;\n"            \
    "    @%p2 bra $end;\n"                          \
    "    ld.param.u64 %a1, [burn_word];\n"          \
    "    cvta.to.global.u64 %a2, %a1;\n"            \
    "    st.global.u32 [%a2], %r3;\n"               \
    "$end:\n"                                       \
    "    ret;\n"                                    \
    "}\n"

static const char KERNELS[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry step(\n"
    "    .param .u64 step_word,\n"
    "    .param .u32 step_value\n"
    ")\n"
    "{\n"
    "    .reg .b32 %r<4>;\n"
    "    .reg .b64 %a<3>;\n"
    "    ld.param.u64 %a1, [step_word];\n"
    "    ld.param.u32 %r1, [step_value];\n"
    "    cvta.to.global.u64 %a2, %a1;\n"
    "    ld.global.u32 %r2, [%a2];\n"
    "    mad.lo.u32 %r3, %r2, 5, %r1;\n"
    "    st.global.u32 [%a2], %r3;\n"
    "    ret;\n"
    "}\n"
    BURN("burn") BURN("ncclDevKernel_burn");

#endif
