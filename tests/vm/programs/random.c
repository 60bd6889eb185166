// Generates numbers with Debian's hipRAND, or with its rocRAND directly: `random hiprand` or `random rocrand`. In both cases
// rocRAND launches.
//
// First it prints `ready` and its pid, and fills memory until it reads a line, so that it has work on the device. The numbers
// are not checked.
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
    // Philox; the two libraries have different numbers for it.
    printf("create = %d\n", create(&generator, is_hiprand ? 405 : 404));
    // Until there is a verdict on a call, it is scheduled like any other: on a slow machine that takes time.
    for (int times = 0; times < 100; times++) {
        printf("generate = %d\n", generate(generator, memory, SIZE / 4));
        usleep(100000);
    }
    // The work on the device does not end.
    _exit(0);
}
