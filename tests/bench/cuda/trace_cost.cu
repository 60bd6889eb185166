// Launches of an empty kernel: prints the median and the least host time of one, in nanoseconds.
//
// A batch is shorter than the driver's queue, so no launch waits for the device. `--wait` prints `ready`, and launches once
// a line arrives on its standard input.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

__global__ void nothing() {}

constexpr int BATCHES = 200;
constexpr int LAUNCHES = 500;

int main(int argc, char **argv) {
    nothing<<<1, 1>>>();
    cudaDeviceSynchronize();
    if (argc > 1 && strcmp(argv[1], "--wait") == 0) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    std::vector<double> times;
    for (int batch = 0; batch < BATCHES; batch++) {
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < LAUNCHES; i++) nothing<<<1, 1>>>();
        times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / LAUNCHES);
        cudaDeviceSynchronize();
    }
    std::sort(times.begin(), times.end());
    printf("%.0f %.0f\n", times[BATCHES / 2], times[0]);
    return cudaGetLastError() != cudaSuccess;
}
