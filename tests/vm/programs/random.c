// Debian's hipRAND, or its rocRAND by itself, makes numbers: `random hiprand` or `random rocrand`. Whoever is the one that is
// called, rocRAND launches.
//
// Before it begins it prints `ready` and its id, and fills memory until it is given a line, so that there is something of it on
// the device. The shaders are not executed, so nobody looks at the numbers.
#include <poll.h>
#include <unistd.h>

#include "hip.h"

#define SIZE ((size_t)4096)

static void *opened(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        exit(2);
    }
    return library;
}

static void begin(void *memory) {
    struct pollfd input = {0, POLLIN, 0};
    char byte = 0;
    printf("ready %d\n", (int)getpid());
    do {
        if (function("hipMemcpy")(memory, &(char[16]){0}, (size_t)16, 1)) exit(1);
    } while (poll(&input, 1, 10) == 0);
    while (byte != '\n' && read(0, &byte, 1) == 1) {
    }
}

int main(int argc, char **argv) {
    int is_hiprand = argc > 1 && !strcmp(argv[1], "hiprand");
    open_runtime();
    void *rocrand = opened("librocrand.so.1"), *hiprand = opened("libhiprand.so.1");
    void *library = is_hiprand ? hiprand : rocrand;
    int (*create)() = (int (*)())dlsym(library, is_hiprand ? "hiprandCreateGenerator" : "rocrand_create_generator");
    int (*generate)() = (int (*)())dlsym(library, is_hiprand ? "hiprandGenerate" : "rocrand_generate");
    void *memory = NULL, *generator = NULL;
    CALL(hipMalloc, &memory, SIZE);
    begin(memory);
    // Philox, for which each has a number of its own.
    printf("create = %d\n", create(&generator, is_hiprand ? 405 : 404));
    // Until somebody has decided whose a call is, it is treated like any other: on a slow machine that takes a while.
    for (int times = 0; times < 100; times++) {
        printf("generate = %d\n", generate(generator, memory, SIZE / 4));
        usleep(100000);
    }
    // What is on the device does not end.
    _exit(0);
}
