// Preloaded into QEMU: time goes slower for the virtual machine, by the factor FAKEGPU_SLOWER, and its processor seems that much
// faster. What the guest measures then does not depend on how busy the host is, and fits a device whose clock is as slow.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

static struct timespec begin;
static long long slower = 1;
static int (*get)(clockid_t, struct timespec *);
static int (*wait_for)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

static long long nanoseconds(const struct timespec *time) { return time->tv_sec * 1000000000LL + time->tv_nsec; }

static void set(struct timespec *time, long long value) {
    time->tv_sec = value / 1000000000, time->tv_nsec = value % 1000000000;
}

__attribute__((constructor)) static void prepare(void) {
    const char *factor = getenv("FAKEGPU_SLOWER");
    get = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    wait_for = (int (*)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))dlsym(RTLD_NEXT, "ppoll");
    if (factor && atoll(factor) > 1) slower = atoll(factor);
    get(CLOCK_MONOTONIC, &begin);
}

// Guests get their time from this clock.
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!get) prepare();
    int failed = get(clock, time);
    if (!failed && clock == CLOCK_MONOTONIC)
        set(time, nanoseconds(&begin) + (nanoseconds(time) - nanoseconds(&begin)) / slower);
    return failed;
}

// QEMU's main loop waits here for the next timer.
int ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    struct timespec longer;
    if (timeout && timeout->tv_sec < 1000000) {
        set(&longer, nanoseconds(timeout) * slower);
        timeout = &longer;
    }
    return wait_for(files, count, timeout, mask);
}
