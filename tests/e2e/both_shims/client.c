/* Uses a runtime, or two.
 *
 *     client MODE [hip LIBRARY] [cuda LIBRARY]
 *
 * MODE is `stay` (until the end of standard input), `ask` (for a priority, then as `stay`), `fork` and `fork-again`
 * (without memory; the second has forked before), or `plugin` with a LIBRARY that is loaded and closed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xsched_hints.h>

void *__libc_calloc(size_t, size_t);
static volatile int is_out_of_memory;
void *calloc(size_t count, size_t size) { return is_out_of_memory ? NULL : __libc_calloc(count, size); }

static void *library;

static long call(const char *name, long a, long b, long c, long d) {
    long (*function)(long, long, long, long) = (long (*)(long, long, long, long))dlsym(library, name);
    if (!function) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    int status = (int)function(a, b, c, d);
    if (status) {
        fprintf(stderr, "%s = %d\n", name, status);
        exit(1);
    }
    return 0;
}

static void use_hip(void) {
    void *memory, *stream;
    call("hipMalloc", (long)&memory, 4096, 0, 0);
    call("hipStreamCreate", (long)&stream, 0, 0, 0);
    call("hipMemsetAsync", (long)memory, 0, 4096, (long)stream);
    call("hipStreamSynchronize", (long)stream, 0, 0, 0);
}

static void use_cuda(void) {
    int device;
    void *context, *stream;
    unsigned long memory;
    call("cuInit", 0, 0, 0, 0);
    call("cuDeviceGet", (long)&device, 0, 0, 0);
    call("cuDevicePrimaryCtxRetain", (long)&context, device, 0, 0);
    call("cuCtxSetCurrent", (long)context, 0, 0, 0);
    call("cuMemAlloc_v2", (long)&memory, 4096, 0, 0);
    call("cuStreamCreate", (long)&stream, 1, 0, 0);
    call("cuMemsetD8Async", (long)memory, 0, 4096, (long)stream);
    call("cuStreamSynchronize", (long)stream, 0, 0, 0);
}

static int forked(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

int main(int count, char **arguments) {
    const char *mode = arguments[1];
    if (!strcmp(mode, "plugin")) {
        void *shim = dlopen(arguments[2], RTLD_NOW);
        if (!shim) return 1;
        dlclose(shim);
        puts(dlopen(arguments[2], RTLD_NOW | RTLD_NOLOAD) ? "stays" : "is gone");
        return 0;
    }
    for (int i = 2; i + 1 < count; i += 2) {
        library = dlopen(arguments[i + 1], RTLD_NOW | RTLD_GLOBAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        if (!strcmp(arguments[i], "hip")) use_hip();
        else use_cuda();
    }
    if (!strncmp(mode, "fork", 4)) {
        if (!strcmp(mode, "fork-again")) forked();
        is_out_of_memory = 1;
        int status = forked();
        is_out_of_memory = 0;
        printf("the child ended with %d\n", status);
        return 0;
    }
    int priority = 40;
    if (!strcmp(mode, "ask") && xsched_hint_priority(&priority)) return 1;
    while (getchar() != EOF) {}
    return 0;
}
