/* C interface of the simulated HIP runtime: kernels' work, and counters of the requests that it got. */

#ifndef HIP_SIM_H
#define HIP_SIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One launch, as passed to a twin. */
struct hip_sim_launch {
    /* The kernel's mangled name. */
    const char *name;
    /* Extent of the grid in blocks, of a block in threads. */
    unsigned int grid[3];
    unsigned int block[3];
    /* Dynamic local data share in bytes. */
    size_t dynamic_lds_size;
    /* The explicit arguments as the device would read them. Each is at the offset that the code object's metadata
     * gives; the buffer is aligned to 16 bytes. The twin may dereference pointers in it. */
    const void *kernarg;
    size_t kernarg_size;
    /* See hip_sim_check_access. */
    int (*check_access)(const void *address, size_t size);
};

/* Returns 0 if the whole range lies in one allocation. If not, returns hipErrorIllegalAddress, which also becomes the
 * error of every later call, as after a hardware fault. Safety does not depend on this check: an access between
 * allocations or after free is detected without it, reads zeroes and has the same consequence. The check also finds
 * two cases that are not detected otherwise: the last bytes of an allocation's last page, and host memory that HIP
 * does not know. */
static inline int hip_sim_check_access(const struct hip_sim_launch *launch, const void *address, size_t size) {
    return launch->check_access(address, size);
}

/* A twin does the work of all of a launch's threads. It is a function
 *
 *     void hip_sim_twin_<kernel name>(const struct hip_sim_launch *launch);
 *
 * with C linkage, in a library named by HIP_SIM_TWINS or visible in the process. The simulator calls it on one of its
 * own threads. It must not call HIP, and must not throw. Twins of different streams may run at the same time.
 *
 * HIP_SIM_TWIN(vector_add) { ... uses `launch` ... } */
#define HIP_SIM_TWIN(kernel)                                                                        \
    __attribute__((visibility("default"))) void hip_sim_twin_##kernel(                              \
        const struct hip_sim_launch *launch)

/* An executor does the work of any kernel, from its code object. It is a library named by HIP_SIM_EXECUTOR that has
 *
 *     int hip_sim_execute(const struct hip_sim_execution *execution);
 *
 * The simulator calls it before it looks for a twin, under the same conditions. It returns 0 when the work is done,
 * HIP_SIM_NOT_MINE to leave the work to a twin, or a hipError_t, which becomes the error of every later call. */
struct hip_sim_execution {
    const struct hip_sim_launch *launch;
    /* The ELF file that contains the kernel, for the device's processor, unpacked from its bundle. */
    const void *code_object;
    size_t code_object_size;
    /* Static and dynamic local data share together, in bytes. */
    size_t lds_size;
};

#define HIP_SIM_NOT_MINE (-1)

/* Counters of this copy of the library, as lines "name count\n", sorted by name. Each function copies as much as fits
 * into len bytes, always terminated, and returns the size of the whole text with its terminator. */

/* Launches by kernel. Null mode counts all kernels together as "*". */
size_t hip_sim_kernel_launches(char *buffer, size_t len);
/* Kernels that ran without a twin: they took their time and had no effect. */
size_t hip_sim_missing_twins(char *buffer, size_t len);
/* Calls of HIP functions that are not implemented: they returned hipErrorNotSupported, null, or nothing. */
size_t hip_sim_unsupported_calls(char *buffer, size_t len);
/* Sets all counters to zero. */
void hip_sim_reset_counters(void);

#ifdef __cplusplus
}
#endif

#endif
