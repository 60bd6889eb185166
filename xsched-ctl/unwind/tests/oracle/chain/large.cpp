// C++ with a frame of 40 KiB, calls through a table, and an exception that is caught on the way.
#include <stdexcept>
#include <string>

extern "C" long NEXT(long);

namespace {
struct Step {
    virtual ~Step() = default;
    virtual long run(long value) = 0;
};

struct Large : Step {
    long run(long value) override {
        volatile long scratch[5000];
        for (int i = 0; i < 5000; i += 512) scratch[i] = value;
        std::string name = "step " + std::to_string(value);
        return NEXT(value + 1) + scratch[512] + static_cast<long>(name.size());
    }
};

[[gnu::noinline]] long checked(long value) {
    if (value >= 0) throw std::runtime_error("caught on the way");
    return value;
}
}

extern "C" long THIS(long value) {
    static Large large;
    Step *volatile step = &large;
    long extra = 0;
    try {
        extra = checked(value);
    } catch (const std::exception &) {
        extra = 1;
    }
    return step->run(value) + extra;
}
