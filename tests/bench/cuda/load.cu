// An urgent client and a batch job, by CUDA's runtime.
//
//     load calibrate                                iterations of a millisecond: of the batch job, of a tenth of one of the urgent client
//     load urgent SECONDS ITERATIONS [KERNELS]      40 requests of 8 kernels a second; prints their times in ms, without the first second
//     load batch SECONDS ITERATIONS [FILE]          kernels of 1 to 3 ms that fill the device; prints the part of the time that they took,
//                                                   the least and the largest part in any second but the first and the last, and
//                                                   the longest time in which no kernel ended. FILE gets the work of each second
//     load steps SECONDS ITERATIONS HOST_US [null]    steps of 600 kernels, with so much work of the host before each launch, and a wait
//                                                   at the end, as of a training; on a stream, or the null stream. Prints steps a second
//     load idle SECONDS                                a kernel 10 times a second
//     load turns ROUNDS [threads]                      two processes, or two threads of one, launch an empty kernel in turn, each when the
//                                                   other's has ended; prints how long a turn takes
//     load cost PIECES                                 500 launches of an empty kernel by the preloaded shim, 500 by the driver itself, and so
//                                                   on; prints what one takes and the difference. Without a shim both are the driver's
//     load frees SECONDS                             20 kernels, an allocation and its release, again and again; prints the longest round
//
// nvcc -O2 -arch=sm_90 -o load load.cu

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <link.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        cudaError_t error_ = (call);                                                                       \
        if (error_ != cudaSuccess) {                                                                       \
            std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error_));        \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)

__global__ void burn(long iterations, float *out) {
    float x = threadIdx.x;
    for (long i = 0; i < iterations; i++) x = fmaf(x, 1.0001f, 0.5f);
    if (x == 12345.f) *out = x;
}

static double now_ms() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

static void sleep_until(double ms) {
    double left = ms - now_ms();
    if (left > 0) usleep((useconds_t)(left * 1e3));
}

constexpr int FILLING_BLOCKS = 132 * 2, FILLING_THREADS = 1024, SMALL_BLOCKS = 132, SMALL_THREADS = 256;

static double timed_ms(int blocks, int threads, long iterations, cudaStream_t stream, float *out) {
    for (int i = 0; i < 3; i++) burn<<<blocks, threads, 0, stream>>>(iterations / 10, out);
    CHECK(cudaStreamSynchronize(stream));
    double begin = now_ms();
    burn<<<blocks, threads, 0, stream>>>(iterations, out);
    CHECK(cudaStreamSynchronize(stream));
    return now_ms() - begin;
}

static void calibrate(cudaStream_t stream, float *out) {
    long iterations = 2000000;
    double filling = timed_ms(FILLING_BLOCKS, FILLING_THREADS, iterations, stream, out);
    double small = timed_ms(SMALL_BLOCKS, SMALL_THREADS, iterations, stream, out);
    std::printf("%ld %ld\n", (long)(iterations / filling), (long)(iterations / small) / 10);
}

static void urgent(double seconds, long iterations, int kernels, cudaStream_t stream, float *out) {
    for (int i = 0; i < 20; i++) burn<<<SMALL_BLOCKS, SMALL_THREADS, 0, stream>>>(iterations, out);
    CHECK(cudaStreamSynchronize(stream));
    std::vector<double> times;
    double start = now_ms(), sum = 0;
    for (int i = 0; i * 25.0 < seconds * 1e3; i++) {
        sleep_until(start + i * 25.0);
        double begin = now_ms();
        for (int k = 0; k < kernels; k++) burn<<<SMALL_BLOCKS, SMALL_THREADS, 0, stream>>>(iterations, out);
        CHECK(cudaStreamSynchronize(stream));
        if (i < 40) continue;
        times.push_back(now_ms() - begin);
        sum += times.back();
    }
    std::sort(times.begin(), times.end());
    size_t n = times.size();
    std::printf("urgent: n=%zu mean=%.3f p50=%.3f p90=%.3f p99=%.3f max=%.3f ms\n", n, sum / n, times[n / 2],
                times[n * 9 / 10], times[n * 99 / 100], times[n - 1]);
}

// The work of each whole second of the clock, which processes share, goes to a file, if there is one: the second and its milliseconds.
static void batch(double seconds, long iterations_of_ms, const char *file, cudaStream_t stream, float *out) {
    constexpr int AHEAD = 16;
    cudaEvent_t events[AHEAD];
    for (auto &event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
    srand(1);
    burn<<<1, 32, 0, stream>>>(1, out);
    CHECK(cudaStreamSynchronize(stream));
    double start = now_ms(), work_ms = 0, ahead[AHEAD], ended = start, pause = 0;
    size_t first = (size_t)(start / 1e3);
    std::vector<double> seconds_ms((size_t)seconds + 3);
    long count = 0;
    for (; now_ms() - start < seconds * 1e3; count++) {
        double ms = 1 + 2.0 * (rand() % 1000) / 1000;
        if (count >= AHEAD) {
            CHECK(cudaEventSynchronize(events[count % AHEAD]));
            double now = now_ms();
            pause = std::max(pause, now - ended);
            ended = now;
            size_t second = (size_t)(now / 1e3) - first;
            if (second < seconds_ms.size()) seconds_ms[second] += ahead[count % AHEAD];
        }
        ahead[count % AHEAD] = ms;
        burn<<<FILLING_BLOCKS, FILLING_THREADS, 0, stream>>>((long)(iterations_of_ms * ms), out);
        CHECK(cudaEventRecord(events[count % AHEAD], stream));
        work_ms += ms;
    }
    CHECK(cudaStreamSynchronize(stream));
    double end = now_ms(), took = end - start;
    // Without the parts of seconds at both ends.
    size_t last = std::min((size_t)(end / 1e3) - first, seconds_ms.size());
    std::vector<double> whole(seconds_ms.begin() + (last > 0), seconds_ms.begin() + last);
    std::printf("batch: %ld kernels, %.3f of the device", count, work_ms / took);
    if (seconds >= 3) {
        auto [least, most] = std::minmax_element(whole.begin(), whole.end());
        std::printf(", %.3f to %.3f in a second", *least / 1e3, *most / 1e3);
    }
    std::printf(", longest pause %.1f ms\n", pause);
    FILE *written = file ? std::fopen(file, "w") : nullptr;
    for (size_t i = 0; written && i < whole.size(); i++) std::fprintf(written, "%zu %.3f\n", first + 1 + i, whole[i]);
    if (written) std::fclose(written);
}

static void steps(double seconds, long iterations, double host_us, cudaStream_t stream, float *out) {
    constexpr int KERNELS = 600;
    auto step = [&] {
        for (int i = 0; i < KERNELS; i++) {
            for (double until = now_ms() + host_us / 1e3; now_ms() < until;) {}
            burn<<<SMALL_BLOCKS, SMALL_THREADS, 0, stream>>>(iterations, out);
        }
        CHECK(cudaStreamSynchronize(stream));
    };
    for (int i = 0; i < 5; i++) step();
    double start = now_ms();
    long count = 0;
    for (; now_ms() - start < seconds * 1e3; count++) step();
    std::printf("steps: %.2f a second\n", count / (now_ms() - start) * 1e3);
}

static void frees(double seconds, cudaStream_t stream, float *out) {
    double start = now_ms(), longest = 0;
    long rounds = 0;
    for (; now_ms() - start < seconds * 1e3; rounds++) {
        double begin = now_ms();
        void *memory;
        for (int i = 0; i < 20; i++) burn<<<SMALL_BLOCKS, SMALL_THREADS, 0, stream>>>(1000, out);
        CHECK(cudaMalloc(&memory, 1 << 20));
        CHECK(cudaFree(memory));
        longest = std::max(longest, now_ms() - begin);
    }
    std::printf("frees: %ld rounds, the longest %.1f ms\n", rounds, longest);
}

static void take_turns(int rounds, int from, int to, std::vector<double> *times) {
    float *out;
    cudaStream_t stream;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&out, 64));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    char turn = 0;
    for (int i = 0; i < rounds; i++) {
        double begin = now_ms();
        burn<<<1, 32, 0, stream>>>(1, out);
        CHECK(cudaStreamSynchronize(stream));
        if (write(to, &turn, 1) != 1 || read(from, &turn, 1) != 1) std::exit(1);
        if (times && i >= rounds / 10) times->push_back((now_ms() - begin) * 1e3 / 2);
    }
}

static void turns(int rounds, bool in_threads) {
    int forth[2], back[2];
    if (pipe(forth) || pipe(back)) std::exit(1);
    std::vector<double> times;
    auto other = [&] {
        char turn;
        if (read(forth[0], &turn, 1) != 1) std::exit(1);
        take_turns(rounds, forth[0], back[1], nullptr);
    };
    if (in_threads) {
        std::thread(other).detach();
    } else if (fork() == 0) {
        // Its last wait ends with the process that has taken all its turns.
        close(forth[1]);
        other();
        std::exit(0);
    }
    take_turns(rounds, back[0], forth[1], &times);
    std::sort(times.begin(), times.end());
    size_t n = times.size();
    std::printf("turns of %s: n=%zu p50=%.1f p90=%.1f p99=%.1f us\n", in_threads ? "threads" : "processes", n,
                times[n / 2], times[n * 9 / 10], times[n * 99 / 100]);
    std::fflush(stdout);
    _exit(0);
}

using Launch = int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

// A function of the driver library, whatever is preloaded: out of its own table of symbols.
static void *of_driver(const char *name) {
    link_map *driver;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &driver)) return nullptr;
    const ElfW(Sym) *symbols = nullptr;
    const char *names = nullptr;
    for (const ElfW(Dyn) *entry = driver->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB) names = (const char *)entry->d_un.d_ptr;
    }
    // The names lie behind the symbols.
    for (const ElfW(Sym) *symbol = symbols; symbol && (const char *)symbol < names; symbol++)
        if (symbol->st_value && !std::strcmp(names + symbol->st_name, name)) return (char *)driver->l_addr + symbol->st_value;
    return nullptr;
}

static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

static void cost(int pieces, cudaStream_t stream, float *out) {
    constexpr int LAUNCHES = 500;
    cudaFunction_t kernel;
    CHECK(cudaGetFuncBySymbol(&kernel, (const void *)burn));
    auto driver = (Launch)of_driver("cuLaunchKernel"), shim = (Launch)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    if (!driver) std::exit(1);
    if (!shim) shim = driver;
    long iterations = 0;
    void *arguments[] = {&iterations, &out};
    auto piece = [&](Launch launch) {
        double begin = now_ms();
        for (int i = 0; i < LAUNCHES; i++)
            if (launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr)) std::exit(1);
        double took = now_ms() - begin;
        CHECK(cudaStreamSynchronize(stream));
        return took * 1e6 / LAUNCHES;
    };
    std::vector<double> by_driver, by_shim, more;
    for (int i = 0; i < pieces; i++) {
        // The second of two may be slower or faster, so they change places.
        double first = piece(i % 2 ? shim : driver), second = piece(i % 2 ? driver : shim);
        by_driver.push_back(i % 2 ? second : first);
        by_shim.push_back(i % 2 ? first : second);
        more.push_back(by_shim.back() - by_driver.back());
    }
    std::sort(more.begin(), more.end());
    std::printf("%s: %.1f ns, by the driver %.1f; difference %.1f (quartiles %.1f and %.1f), n=%d pieces of %d\n",
                shim == driver ? "control" : "shim", median(by_shim), median(by_driver), median(more), more[pieces / 4],
                more[3 * pieces / 4], pieces, LAUNCHES);
}

int main(int argc, char **argv) {
    auto number = [&](int index) { return index < argc ? std::atof(argv[index]) : 0.0; };
    if (argc < 2) return 64;
    // It forks, which must come before any call of CUDA's.
    if (!std::strcmp(argv[1], "turns")) turns((int)number(2), argc > 3);
    CHECK(cudaSetDevice(0));
    float *out;
    CHECK(cudaMalloc(&out, 64));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (!std::strcmp(argv[1], "calibrate")) calibrate(stream, out);
    if (!std::strcmp(argv[1], "urgent"))
        urgent(number(2), (long)number(3), argc > 4 ? (int)number(4) : 8, stream, out);
    if (!std::strcmp(argv[1], "batch")) batch(number(2), (long)number(3), argc > 4 ? argv[4] : nullptr, stream, out);
    if (!std::strcmp(argv[1], "steps"))
        steps(number(2), (long)number(3), number(4), argc > 5 ? nullptr : stream, out);
    if (!std::strcmp(argv[1], "idle"))
        for (double end = now_ms() + number(2) * 1e3; now_ms() < end; usleep(100000)) {
            burn<<<1, 32, 0, stream>>>(1, out);
            CHECK(cudaStreamSynchronize(stream));
        }
    if (!std::strcmp(argv[1], "cost")) cost((int)number(2), stream, out);
    if (!std::strcmp(argv[1], "frees")) frees(number(2), stream, out);
    return 0;
}
