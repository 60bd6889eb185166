// rocRAND: four generators, each on the same stream.
#include "said.h"
#include <rocrand/rocrand.h>

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    enum { COUNT = 65536 };
    const rocrand_rng_type types[] = {ROCRAND_RNG_PSEUDO_PHILOX4_32_10, ROCRAND_RNG_PSEUDO_XORWOW,
                                      ROCRAND_RNG_PSEUDO_MRG32K3A, ROCRAND_RNG_QUASI_SOBOL32};
    hipStream_t stream;
    float *numbers;
    SAY(hipStreamCreate(&stream));
    SAY(hipMalloc((void **)&numbers, COUNT * sizeof(float)));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        rocrand_generator generator;
        printf("type %d\n", types[i]);
        SAY(rocrand_create_generator(&generator, types[i]));
        SAY(rocrand_set_stream(generator, stream));
        for (int round = 0; round < ROUNDS; round++) {
            OK(rocrand_generate_uniform(generator, numbers, COUNT));
            OK(rocrand_generate_normal(generator, numbers, COUNT, 0, 1));
        }
        SAY(hipStreamSynchronize(stream));
        SAY(rocrand_destroy_generator(generator));
    }
    SAY(hipGetLastError());
    SAY(hipFree(numbers));
    SAY(hipStreamDestroy(stream));
    return ended();
}
