// The last error of a thread, and the names of codes.

#define AREA "errors"

#include <cstring>

#include "gate.hpp"
#include "memory.hpp"

CASE(a_thread_begins_without_an_error) {
    OK(hipPeekAtLastError());
    OK(hipGetLastError());
}

CASE(peeking_keeps_the_error_and_getting_clears_it) {
    REFUSED(hipMalloc(nullptr, 16), hipErrorInvalidValue);
    EQUAL(hipPeekAtLastError(), hipErrorInvalidValue);
    EQUAL(hipPeekAtLastError(), hipErrorInvalidValue);
    EQUAL(hipGetLastError(), hipErrorInvalidValue);
    EQUAL(hipGetLastError(), hipSuccess);
}

CASE(the_last_error_is_the_latest) {
    REFUSED(hipMalloc(nullptr, 16), hipErrorInvalidValue);
    REFUSED(hipSetDevice(-1), hipErrorInvalidDevice);
    EQUAL(hipGetLastError(), hipErrorInvalidDevice);
}

CASE(errors_of_other_threads_are_theirs) {
    REFUSED(hipMalloc(nullptr, 16), hipErrorInvalidValue);
    hipError_t theirs = hipErrorUnknown;
    std::thread([&] { theirs = hipGetLastError(); }).join();
    EQUAL(theirs, hipSuccess);
    std::thread([] { (void)hipSetDevice(-1); }).join();
    EQUAL(hipGetLastError(), hipErrorInvalidValue);
}

// Since 7.0 the last error is kept until it is read.
CASE(a_success_clears_the_error_before_7_and_keeps_it_from_7_on) {
    int major = suite::runtime_major(), count = 0;
    REFUSED(hipMalloc(nullptr, 16), hipErrorInvalidValue);
    OK(hipGetDeviceCount(&count));
    EQUAL(hipGetLastError(), major < 7 ? hipSuccess : hipErrorInvalidValue);
}

CASE(not_ready_is_an_answer) {
    Stream stream;
    Gate gate(stream);
    REFUSED(hipStreamQuery(stream), hipErrorNotReady);
    gate.open();
    OK(hipStreamSynchronize(stream));
    OK(hipStreamQuery(stream));
}

// Since 7.0 it is no error that stays, which rocBLAS 5 relies on.
CASE(not_ready_is_the_last_error_before_7) {
    Stream stream;
    Gate gate(stream);
    (void)hipGetLastError();
    REFUSED(hipStreamQuery(stream), hipErrorNotReady);
    EQUAL(hipGetLastError(), suite::runtime_major() < 7 ? hipErrorNotReady : hipSuccess);
    gate.open();
    OK(hipStreamSynchronize(stream));
}

CASE(codes_have_their_names) {
    EQUAL(std::string(hipGetErrorName(hipSuccess)), "hipSuccess");
    EQUAL(std::string(hipGetErrorName(hipErrorInvalidValue)), "hipErrorInvalidValue");
    EQUAL(std::string(hipGetErrorName(hipErrorOutOfMemory)), "hipErrorOutOfMemory");
    EQUAL(std::string(hipGetErrorName(hipErrorInvalidDeviceFunction)), "hipErrorInvalidDeviceFunction");
    EQUAL(std::string(hipGetErrorName(hipErrorStreamCaptureInvalidated)), "hipErrorStreamCaptureInvalidated");
    EQUAL(static_cast<int>(hipErrorNotReady), 600);
    for (int code : {0, 1, 2, 98, 400, 600, 900, 12345}) {
        const char *text = hipGetErrorString(static_cast<hipError_t>(code));
        REQUIRE(text != nullptr && std::strlen(text) > 0);
    }
}
