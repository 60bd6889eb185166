// Blocks streams and watches calls, so that no case assumes how long anything takes.

#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "suite.hpp"

// A host function in a stream that ends when the gate is opened: work behind it cannot begin before.
//
// Only one gate at a time may be closed, because some releases of the runtime call all host functions from
// one thread.
class Gate {
  public:
    explicit Gate(hipStream_t stream) : is_open(std::make_shared<std::atomic<bool>>(false)) {
        // The function owns a reference, because it may still run when this object is destroyed.
        auto *state = new std::shared_ptr<std::atomic<bool>>(is_open);
        OK(hipLaunchHostFunc(stream, wait, state));
    }
    ~Gate() { open(); }
    Gate(const Gate &) = delete;

    void open() {
        is_open->store(true);
        is_open->notify_all();
    }

  private:
    static void wait(void *state) {
        auto *is_open = static_cast<std::shared_ptr<std::atomic<bool>> *>(state);
        (*is_open)->wait(false);
        delete is_open;
    }

    std::shared_ptr<std::atomic<bool>> is_open;
};

// A call on a thread of its own, which may or may not return while a gate is closed.
class Pending {
  public:
    template <typename Call> explicit Pending(Call call) {
        std::packaged_task<hipError_t()> task(call);
        result = task.get_future();
        thread = std::thread(std::move(task));
    }
    ~Pending() { thread.join(); }
    Pending(const Pending &) = delete;

    // Whether it returns by itself. The limit only ends a case that has failed already.
    bool returns() { return result.wait_for(std::chrono::seconds(60)) == std::future_status::ready; }

    // Whether it has not returned after a while. A call that waits always passes. A call that does not wait,
    // but was delayed by the machine for that long, would pass unnoticed.
    bool blocks() { return result.wait_for(std::chrono::milliseconds(40)) == std::future_status::timeout; }

    // The call's code.
    hipError_t code() { return result.get(); }

  private:
    std::future<hipError_t> result;
    std::thread thread;
};
