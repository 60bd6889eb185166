// What a query of the null stream says, and whether it orders anything, while another stream is busy.
//
// nvcc -O2 -arch=sm_90 -o null_query null_query.cu
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>

__global__ void spin(long long cycles) { for (long long begin = clock64(); clock64() - begin < cycles;) {} }

static double ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main() {
    const long long LONG = 200000000; // about 0.1 s
    cudaStream_t blocking, other, free_;
    cudaStreamCreate(&blocking);
    cudaStreamCreate(&other);
    cudaStreamCreateWithFlags(&free_, cudaStreamNonBlocking);
    spin<<<1, 1>>>(1);
    spin<<<1, 1, 0, blocking>>>(1);
    spin<<<1, 1, 0, other>>>(1);
    spin<<<1, 1, 0, free_>>>(1);
    cudaDeviceSynchronize();
    const char *names[] = {"non-blocking", "blocking"};
    cudaStream_t streams[] = {free_, blocking};
    for (int i = 0; i < 2; i++) {
        double begin = ms();
        spin<<<1, 1, 0, streams[i]>>>(LONG);
        cudaError_t answer = cudaStreamQuery(0);
        double asked = ms();
        printf("a %s stream is busy: the null stream is %s, after %.3f ms\n", names[i],
               answer == cudaSuccess ? "done" : "not done", asked - begin);
        for (int j = 0; j < 100; j++) cudaStreamQuery(0);
        spin<<<1, 1, 0, other>>>(1);
        cudaStreamSynchronize(other);
        printf("    another stream's kernel after 100 such questions took %.3f ms\n", ms() - asked);
        cudaDeviceSynchronize();
        printf("    the long one took %.1f ms\n", ms() - begin);
    }
    // The null stream's own kernel is done, and a blocking stream began afterwards.
    spin<<<1, 1>>>(LONG / 100);
    spin<<<1, 1, 0, blocking>>>(LONG);
    double begin = ms();
    while (cudaStreamQuery(0) != cudaSuccess && ms() - begin < 1000) {}
    printf("null stream's kernel of 1 ms, then a blocking stream's of 100 ms: the null stream is done after %.1f ms\n", ms() - begin);
    cudaDeviceSynchronize();
    printf("    all after %.1f ms\n", ms() - begin);
    return cudaGetLastError() != cudaSuccess;
}
