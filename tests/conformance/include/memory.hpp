// Device and pinned memory of a case, with its data.

#pragma once

#include <cstdint>
#include <vector>

#include "suite.hpp"

// Device memory of `count` elements, freed with the object.
template <typename T> class Device {
  public:
    explicit Device(size_t count) : count(count) {
        OK(hipMalloc(reinterpret_cast<void **>(&address), count * sizeof(T)));
    }
    // Holds `value` in each element. The data are there when this returns.
    Device(size_t count, T value) : Device(count) { write(std::vector<T>(count, value)); }
    ~Device() { (void)hipFree(address); }
    Device(const Device &) = delete;

    operator T *() const { return address; }
    size_t bytes() const { return count * sizeof(T); }

    void write(const std::vector<T> &values) {
        OK(hipMemcpy(address, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
    }
    // Contents after all work that the null stream waits for.
    std::vector<T> read() const {
        std::vector<T> values(count);
        OK(hipMemcpy(values.data(), address, bytes(), hipMemcpyDeviceToHost));
        return values;
    }
    // Whether every element is `value`, after all work of the device.
    bool holds(T value) const {
        OK(hipDeviceSynchronize());
        return read() == std::vector<T>(count, value);
    }

  private:
    T *address = nullptr;
    size_t count;
};

// Pinned host memory, freed with the object.
template <typename T> class Pinned {
  public:
    explicit Pinned(size_t count, T value = T()) : count(count) {
        OK(hipHostMalloc(reinterpret_cast<void **>(&address), count * sizeof(T), 0));
        for (size_t i = 0; i < count; i++) address[i] = value;
    }
    ~Pinned() { (void)hipHostFree(address); }
    Pinned(const Pinned &) = delete;

    operator T *() const { return address; }
    size_t bytes() const { return count * sizeof(T); }
    bool holds(T value) const {
        for (size_t i = 0; i < count; i++)
            if (address[i] != value) return false;
        return true;
    }

  private:
    T *address = nullptr;
    size_t count;
};

// A stream, destroyed with the object.
class Stream {
  public:
    explicit Stream(unsigned flags = hipStreamDefault) { OK(hipStreamCreateWithFlags(&stream, flags)); }
    ~Stream() { (void)hipStreamDestroy(stream); }
    Stream(const Stream &) = delete;
    operator hipStream_t() const { return stream; }

  private:
    hipStream_t stream = nullptr;
};

// An event, destroyed with the object.
class Event {
  public:
    explicit Event(unsigned flags = hipEventDefault) { OK(hipEventCreateWithFlags(&event, flags)); }
    ~Event() { (void)hipEventDestroy(event); }
    Event(const Event &) = delete;
    operator hipEvent_t() const { return event; }

  private:
    hipEvent_t event = nullptr;
};
