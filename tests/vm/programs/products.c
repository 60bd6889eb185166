// Products of matrices by AMD's rocBLAS, compared with those of the host. Numbers are small and whole, so a product has the same
// bits in whatever order it is summed up. The last product has fractions: it must be as near as rounding allows, and its digest is
// printed.
//
// Each matrix is added to by several products, on two streams in turn. Many of rocBLAS's kernels for gfx803 are wrong, and it chooses
// one of them for nearly all products with A transposed (`tests/gcn3/tests/rocblas`). With an argument, which says that they are mended,
// there are more of these.
#include <dlfcn.h>
#include <float.h>
#include <math.h>

#include "linked.h"

HIP(hipRuntimeGetVersion)

#define ROUNDS 4

enum { AS_IT_IS = 111, TRANSPOSED = 112 };

struct Shape {
    int m, n, k, a, b;
};

static const struct Shape SHAPES[] = {
    {16, 16, 16, AS_IT_IS, AS_IT_IS},      {33, 17, 65, AS_IT_IS, AS_IT_IS},   {64, 48, 32, AS_IT_IS, TRANSPOSED},
    {96, 96, 96, AS_IT_IS, AS_IT_IS},      {96, 96, 96, AS_IT_IS, TRANSPOSED}, {31, 96, 7, AS_IT_IS, TRANSPOSED},
    {1400, 5, 1100, TRANSPOSED, AS_IT_IS},
};

static const struct Shape MENDED[] = {
    {16, 16, 16, TRANSPOSED, AS_IT_IS},   {33, 17, 65, TRANSPOSED, TRANSPOSED},   {64, 48, 32, TRANSPOSED, AS_IT_IS},
    {96, 96, 96, TRANSPOSED, TRANSPOSED}, {1024, 32, 64, AS_IT_IS, AS_IT_IS},
};

static void *handle, *streams[2], *events[2];

static int (*rocblas(const char *name))() {
    static void *library;
    if (!library) library = dlopen("librocblas.so.4", RTLD_NOW);
    if (!library) library = dlopen("librocblas.so.5", RTLD_NOW);
    int (*found)() = library ? (int (*)())dlsym(library, name) : NULL;
    if (!found) {
        printf("no %s: %s\n", name, dlerror());
        exit(2);
    }
    return found;
}

static void must(int status, const char *call) {
    if (!status) return;
    printf("%s = %d\n", call, status);
    exit(1);
}

// Small, whole and of both signs.
static float whole(unsigned i) { return (float)((int)(i * 2654435761u >> 28) - 8); }
static float fraction(unsigned i) { return (float)((int)(i * 2654435761u >> 8) - (1 << 23)) / (1 << 23); }

// c += a * b, where all are stored by columns.
static void on_host(struct Shape s, const float *a, const float *b, float *c) {
    for (int column = 0; column < s.n; column++)
        for (int row = 0; row < s.m; row++) {
            float sum = 0;
            for (int i = 0; i < s.k; i++)
                sum += (s.a == AS_IT_IS ? a[row + i * s.m] : a[i + row * s.k]) *
                       (s.b == AS_IT_IS ? b[i + column * s.k] : b[column + i * s.n]);
            c[row + column * s.m] += sum;
        }
}

// ROUNDS products, each from its own A.
static float *on_device(struct Shape s, const float *a, const float *b, float *c) {
    size_t sizes[3] = {sizeof *a * s.m * s.k, sizeof *b * s.k * s.n, sizeof *c * s.m * s.n};
    void *as[ROUNDS], *there, *sum;
    float one = 1, *result = malloc(sizes[2]);
    for (int round = 0; round < ROUNDS; round++) {
        OK(hipMalloc, &as[round], sizes[0]);
        OK(hipMemcpy, as[round], a + round * s.m * s.k, sizes[0], TO_DEVICE);
    }
    OK(hipMalloc, &there, sizes[1]);
    OK(hipMalloc, &sum, sizes[2]);
    OK(hipMemcpy, there, b, sizes[1], TO_DEVICE);
    OK(hipMemcpy, sum, c, sizes[2], TO_DEVICE);
    for (int round = 0; round < ROUNDS; round++) {
        int own = round % 2;
        if (round) OK(hipStreamWaitEvent, streams[own], events[1 - own], 0);
        must(rocblas("rocblas_set_stream")(handle, streams[own]), "rocblas_set_stream");
        must(rocblas("rocblas_sgemm")(handle, s.a, s.b, s.m, s.n, s.k, &one, as[round],
                                      s.a == AS_IT_IS ? s.m : s.k, there, s.b == AS_IT_IS ? s.k : s.n, &one, sum, s.m),
             "rocblas_sgemm");
        OK(hipEventRecord, events[own], streams[own]);
    }
    OK(hipDeviceSynchronize);
    OK(hipMemcpy, result, sum, sizes[2], TO_HOST);
    for (int round = 0; round < ROUNDS; round++) OK(hipFree, as[round]);
    OK(hipFree, there);
    OK(hipFree, sum);
    return result;
}

static float *filled(int count, float (*number)(unsigned), unsigned from) {
    float *memory = malloc(sizeof *memory * count);
    for (int i = 0; i < count; i++) memory[i] = number(from + i);
    return memory;
}

static void check(struct Shape s) {
    int count = s.m * s.n, right = 0;
    float *a = filled(ROUNDS * s.m * s.k, whole, 1), *b = filled(s.k * s.n, whole, 7777), *c = filled(count, whole, 99);
    float *result = on_device(s, a, b, c);
    for (int round = 0; round < ROUNDS; round++) on_host(s, a + round * s.m * s.k, b, c);
    for (int i = 0; i < count; i++) right += result[i] == c[i];
    const char *a_is = s.a == AS_IT_IS ? "" : ", A transposed", *b_is = s.b == AS_IT_IS ? "" : ", B transposed";
    printf("%d x %d x %d%s%s: %d of %d values are right\n", s.m, s.n, s.k, a_is, b_is, right, count);
}

int main(int word_count, char **words) {
    (void)words;
    int version = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    OK(hipRuntimeGetVersion, &version);
    printf("runtime %d.%d\n", version / 10000000, version / 100000 % 100);
    must(rocblas("rocblas_create_handle")(&handle), "rocblas_create_handle");
    for (int i = 0; i < 2; i++) {
        OK(hipStreamCreateWithFlags, &streams[i], NON_BLOCKING);
        OK(hipEventCreate, &events[i]);
    }
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) check(SHAPES[i]);
    for (size_t i = 0; word_count > 1 && i < sizeof MENDED / sizeof *MENDED; i++) check(MENDED[i]);
    struct Shape last = {80, 40, 56, AS_IT_IS, AS_IT_IS};
    int count = last.m * last.n, near = 0;
    float *a = filled(ROUNDS * last.m * last.k, fraction, 5), *b = filled(last.k * last.n, fraction, 31);
    float *c = filled(count, fraction, 1), *result = on_device(last, a, b, c);
    for (int round = 0; round < ROUNDS; round++) on_host(last, a + round * last.m * last.k, b, c);
    // Terms are less than 1, and each sum is rounded once for each of them.
    for (int i = 0; i < count; i++) near += fabsf(result[i] - c[i]) < 2 * ROUNDS * last.k * 32 * FLT_EPSILON;
    printf("fractions: %d of %d values are near, %016llx\n", near, count, (unsigned long long)digest(result, sizeof *result * count));
    return 0;
}
