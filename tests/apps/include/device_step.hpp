// The kernel that puts load on the device, and a stream of it that detects launches which did not arrive once
// and in order.

#ifndef DEVICE_STEP_HPP
#define DEVICE_STEP_HPP

#include "program.hpp"

// Launch `number` of a stream: `state` holds the next expected number, and the number of unexpected launches.
// `us` is for the simulator, which can use it as the kernel's duration.
extern "C" __global__ void device_step(unsigned long long *state, [[maybe_unused]] unsigned us, unsigned long long number) {
    if (global_thread_x()) return;
    state[1] += state[0] != number;
    state[0] = number + 1;
}

class Stream {
  public:
    Stream() : Stream(nullptr) {}

    // With a priority if one is given.
    explicit Stream(const int *priority) {
        if (priority) CHECK(hipStreamCreateWithPriority(&handle, hipStreamNonBlocking, *priority));
        else CHECK(hipStreamCreateWithFlags(&handle, hipStreamNonBlocking));
        CHECK(hipMalloc(reinterpret_cast<void **>(&state), 2 * sizeof *state));
        CHECK(hipMemset(state, 0, 2 * sizeof *state));
        CHECK(hipDeviceSynchronize());
    }

    void launch(unsigned blocks, unsigned us, unsigned lds_bytes = 0) {
        device_step<<<blocks, 64, lds_bytes, handle>>>(state, us, launched++);
        CHECK(hipGetLastError());
    }

    void wait() const { CHECK(hipStreamSynchronize(handle)); }

    // Launches that did not arrive once and in order.
    unsigned long long wrong() const {
        unsigned long long found[2];
        CHECK(hipMemcpy(found, state, sizeof found, hipMemcpyDeviceToHost));
        return found[1] + (found[0] != launched);
    }

    hipStream_t handle = nullptr;

  private:
    unsigned long long *state = nullptr;
    unsigned long long launched = 0;
};

#endif
