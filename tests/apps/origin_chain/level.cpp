// One library of a chain of calls, without a usable frame pointer. Each shape sets up its frame differently;
// SHAPE selects the one to compile. It knows neither its caller nor its callee.

#include <alloca.h>

struct Step {
    unsigned long (*call)(const Step *next, unsigned long way);
};

#if SHAPE == 0

// Saved registers only.
#define THROUGH(name)                                                                                                  \
    extern "C" unsigned long name(const Step *next, unsigned long way) { return next->call(next + 1, way) + 1; }

#elif SHAPE == 1

// A frame whose size is known at run time: the compiler needs a frame pointer of its own.
#define THROUGH(name)                                                                                                  \
    extern "C" unsigned long name(const Step *next, unsigned long way) {                                               \
        volatile char *room = static_cast<volatile char *>(alloca(64 + 64 * (way / 64 % 7)));                          \
        room[0] = 1;                                                                                                   \
        return next->call(next + 1, way) + static_cast<unsigned char>(room[0]);                                        \
    }

#elif SHAPE == 2

// A frame of several pages.
#define THROUGH(name)                                                                                                  \
    extern "C" unsigned long name(const Step *next, unsigned long way) {                                               \
        volatile char room[9000];                                                                                      \
        room[way % sizeof room] = 1;                                                                                   \
        return next->call(next + 1, way) + static_cast<unsigned char>(room[way % sizeof room]);                        \
    }

#else

// The frame pointer's register holds another value, which differs from call to call.
#define THROUGH(name)                                                                                                  \
    extern "C" unsigned long name(const Step *next, unsigned long way) {                                               \
        register unsigned long changing asm("rbp") = way * 2654435761u;                                                \
        asm volatile("" : "+r"(changing));                                                                             \
        unsigned long answer = next->call(next + 1, way);                                                              \
        asm volatile("" : : "r"(changing));                                                                            \
        return answer + 1;                                                                                             \
    }

#endif

THROUGH(origin_run)
THROUGH(miopenFindConvolutionForwardAlgorithm)
