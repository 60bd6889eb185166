// large_frames COUNT KIB used|unused: calls HIP COUNT times from below a frame of 64 or 200 KiB, and prints the chains. The frame is
// written from end to end, or hardly at all, so that most of its pages are never there. No two calls have the same words on
// the stack.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" int deep_64_kib(unsigned call, bool is_used);
extern "C" int deep_200_kib(unsigned call, bool is_used);

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: large_frames COUNT 64|200 used|unused\n");
        return 2;
    }
    const unsigned count = static_cast<unsigned>(atoi(argv[1]));
    const auto make_call = atoi(argv[2]) == 64 ? deep_64_kib : deep_200_kib;
    const bool is_used = strcmp(argv[3], "used") == 0;
    int error = 0;
    for (unsigned call = 0; call < count; ++call) {
        error |= make_call(call, is_used);
    }
    return error != 0;
}
