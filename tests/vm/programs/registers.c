// Maps pages of memory files and BPF maps, given by their descriptors. Shows whether the runtime registers them, and whether
// the device then reads what other mappings write.
#include <sys/mman.h>

#include "hip.h"

#define PAGE ((size_t)4096)

static unsigned long *map(int fd) {
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return page;
}

// The first word of a page, read by the device.
static unsigned long read_by_device(void *device, void *page, void *stream) {
    unsigned long *copy = calloc(1, PAGE);
    CALL(hipMemcpyAsync, device, page, PAGE, 1, stream);
    CALL(hipStreamSynchronize, stream);
    CALL(hipMemcpy, copy, device, PAGE, 2);
    unsigned long word = *copy;
    free(copy);
    return word;
}

int main(int count, char **numbers) {
    open_runtime();
    void *device = NULL, *stream = NULL;
    CALL(hipInit, 0);
    CALL(hipMalloc, &device, PAGE);
    CALL(hipStreamCreate, &stream);
    for (int i = 1; i < count; i++) {
        int fd = atoi(numbers[i]);
        unsigned long *page = map(fd), *others = map(fd);
        void *on_device = NULL;
        *others = 1;
        CALL(hipHostRegister, page, PAGE, 1 | 2);
        CALL(hipHostGetDevicePointer, &on_device, page, 0);
        unsigned long first = read_by_device(device, on_device, stream);
        *others = 2;
        unsigned long second = read_by_device(device, on_device, stream);
        printf("page %d: %lu, then %lu\n", i, first, second);
    }
    return 0;
}
