// Holding streams up and watching calls, so that no case assumes how long anything takes.

#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "suite.hpp"

// A host function in a stream that ends when the gate is opened: work behind it cannot have begun before.
//
// One gate at a time may be closed where releases of the runtime call host functions from one thread.
class Gate {
  public:
    explicit Gate(hipStream_t stream) : is_open(std::make_shared<std::atomic<bool>>(false)) {
        // The function owns a reference: it may still run when this object is gone.
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

// A call on a thread of its own, which may or may not come back while a gate is closed.
class Pending {
  public:
    template <typename Call> explicit Pending(Call call) {
        std::packaged_task<hipError_t()> task(call);
        result = task.get_future();
        thread = std::thread(std::move(task));
    }
    ~Pending() { thread.join(); }
    Pending(const Pending &) = delete;

    // Whether it comes back by itself. The limit only ends a case that has failed already.
    bool returns() { return result.wait_for(std::chrono::seconds(60)) == std::future_status::ready; }

    // Whether it has not come back after a while. A call that waits never fails this; one that does not and was held
    // up by the machine for so long would go unnoticed.
    bool blocks() { return result.wait_for(std::chrono::milliseconds(40)) == std::future_status::timeout; }

    // What the call returned.
    hipError_t code() { return result.get(); }

  private:
    std::future<hipError_t> result;
    std::thread thread;
};
