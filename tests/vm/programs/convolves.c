// A convolution by AMD's MIOpen, compared with the host's: every algorithm that it finds by trying, and an activation, whose kernel it
// compiles as well. Numbers are small and whole, so sums have the same bits in whatever order they are made. Which algorithm is
// fastest depends on times, so they are listed by number.
#include <dlfcn.h>

#include "linked.h"

HIP(hipRuntimeGetVersion)

enum { FLOAT = 1, CONVOLUTION = 0, RELU = 3 };
enum { IMAGES = 2, CHANNELS = 8, SIDE = 12, FILTERS = 16, FILTER = 3, FOUND_MAX = 8, ROUNDS = 12 };
enum { IMAGE = IMAGES * CHANNELS * SIDE * SIDE, WEIGHTS = FILTERS * CHANNELS * FILTER * FILTER, RESULT = IMAGES * FILTERS * SIDE * SIDE };

struct Found {
    int algorithm;
    float time;
    size_t memory;
};

static void *handle, *stream, *x, *w, *y, *convolution;

static int (*miopen(const char *name))() {
    static void *library;
    if (!library) library = dlopen("libMIOpen.so.1", RTLD_NOW);
    int (*found)() = library ? (int (*)())dlsym(library, name) : NULL;
    if (!found) {
        printf("no %s: %s\n", name, dlerror());
        exit(2);
    }
    return found;
}

#define MUST(name, ...)                                                                                                \
    do {                                                                                                               \
        int status_ = miopen(#name)(__VA_ARGS__);                                                                      \
        if (status_) {                                                                                                 \
            printf("%s = %d\n", #name, status_);                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// Small, whole and of both signs.
static float whole(unsigned i) { return (float)((int)(i * 2654435761u >> 28) - 8); }

static void *filled(int count, unsigned from, float *here) {
    void *there;
    for (int i = 0; i < count; i++) here[i] = whole(from + i);
    OK(hipMalloc, &there, sizeof *here * count);
    OK(hipMemcpy, there, here, sizeof *here * count, TO_DEVICE);
    return there;
}

// With one row and column of zeros around each image.
static float on_host(const float *image, const float *weights, int number, int filter, int row, int column) {
    float sum = 0;
    for (int channel = 0; channel < CHANNELS; channel++)
        for (int i = 0; i < FILTER * FILTER; i++) {
            int r = row + i / FILTER - 1, c = column + i % FILTER - 1;
            if (r < 0 || c < 0 || r >= SIDE || c >= SIDE) continue;
            sum += image[((number * CHANNELS + channel) * SIDE + r) * SIDE + c] *
                   weights[(filter * CHANNELS + channel) * FILTER * FILTER + i];
        }
    return sum;
}

// Prints how many values of a result are those of the host.
static void compare(const char *what, const float *expected, const void *there, int count) {
    static float result[RESULT];
    int right = 0;
    OK(hipStreamSynchronize, stream);
    OK(hipMemcpy, result, there, sizeof *result * count, TO_HOST);
    for (int i = 0; i < count; i++) right += result[i] == expected[i];
    printf("%s: %d of %d values are right\n", what, right, count);
}

int main(void) {
    static float image[IMAGE], weights[WEIGHTS], expected[RESULT];
    float one = 1, zero = 0;
    int version = 0, sizes[4], count = 0;
    void *output, *workspace = NULL, *relu;
    setvbuf(stdout, NULL, _IOLBF, 0);
    OK(hipRuntimeGetVersion, &version);
    printf("runtime %d.%d\n", version / 10000000, version / 100000 % 100);
    OK(hipStreamCreateWithFlags, &stream, NON_BLOCKING);
    MUST(miopenCreateWithStream, &handle, stream);
    void **descriptors[] = {&x, &w, &y};
    for (int i = 0; i < 3; i++) MUST(miopenCreateTensorDescriptor, descriptors[i]);
    MUST(miopenSet4dTensorDescriptor, x, FLOAT, IMAGES, CHANNELS, SIDE, SIDE);
    MUST(miopenSet4dTensorDescriptor, w, FLOAT, FILTERS, CHANNELS, FILTER, FILTER);
    MUST(miopenCreateConvolutionDescriptor, &convolution);
    MUST(miopenInitConvolutionDescriptor, convolution, CONVOLUTION, 1, 1, 1, 1, 1, 1);
    MUST(miopenGetConvolutionForwardOutputDim, convolution, x, w, &sizes[0], &sizes[1], &sizes[2], &sizes[3]);
    MUST(miopenSet4dTensorDescriptor, y, FLOAT, sizes[0], sizes[1], sizes[2], sizes[3]);
    printf("result %d x %d x %d x %d\n", sizes[0], sizes[1], sizes[2], sizes[3]);
    void *input = filled(IMAGE, 5, image), *filters = filled(WEIGHTS, 777, weights);
    OK(hipMalloc, &output, sizeof *expected * RESULT);

    MUST(miopenCreateActivationDescriptor, &relu);
    MUST(miopenSetActivationDescriptor, relu, RELU, 1.0, 0.0, 1.0);
    MUST(miopenActivationForward, handle, relu, &one, x, input, &zero, x, output);
    for (int i = 0; i < IMAGE; i++) expected[i] = image[i] > 0 ? image[i] : 0;
    compare("activation", expected, output, IMAGE);

    for (int i = 0; i < RESULT; i++) {
        int place = i % (SIDE * SIDE), filter = i / (SIDE * SIDE) % FILTERS;
        expected[i] = on_host(image, weights, i / (SIDE * SIDE * FILTERS), filter, place / SIDE, place % SIDE);
    }
    size_t size = 0;
    MUST(miopenConvolutionForwardGetWorkSpaceSize, handle, w, x, convolution, y, &size);
    if (size) OK(hipMalloc, &workspace, size);
    struct Found found[FOUND_MAX];
    MUST(miopenFindConvolutionForwardAlgorithm, handle, x, input, w, filters, convolution, y, output, FOUND_MAX, &count, found,
         workspace, size, 0);
    for (int algorithm = 0; algorithm < FOUND_MAX; algorithm++)
        for (int i = 0; i < count; i++) {
            if (found[i].algorithm != algorithm) continue;
            char what[32];
            snprintf(what, sizeof what, "algorithm %d", algorithm);
            OK(hipMemsetAsync, output, 0xff, sizeof *expected * RESULT, stream);
            for (int round = 0; round < ROUNDS; round++)
                MUST(miopenConvolutionForward, handle, &one, x, input, w, filters, convolution, algorithm, &zero, y, output, workspace,
                     size);
            compare(what, expected, output, RESULT);
        }
    MUST(miopenDestroy, handle);
    OK(hipStreamDestroy, stream);
    return 0;
}
