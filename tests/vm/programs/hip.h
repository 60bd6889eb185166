// The HIP functions that the virtual machine's programs use, looked up at run time: ROCm's headers are not installed.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *runtime;

static void open_runtime(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    runtime = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_GLOBAL);
    if (!runtime) {
        puts(dlerror());
        exit(2);
    }
}

// A function by its name; the call defines the parameters.
static int (*function(const char *name))() {
    int (*found)() = (int (*)())dlsym(runtime, name);
    if (!found) {
        printf("no %s\n", name);
        exit(2);
    }
    return found;
}

// Calls a function that returns a hipError_t, and prints the result.
#define CALL(name, ...)                                                                                                \
    do {                                                                                                               \
        int error_ = function(#name)(__VA_ARGS__);                                                                     \
        printf("%s = %d\n", #name, error_);                                                                            \
        if (error_) exit(1);                                                                                           \
    } while (0)
