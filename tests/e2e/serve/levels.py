"""A process at one level: it asks for it, works on the device, and says when it was done.

Its arguments are a runtime and a priority. Each line of its input lets it go on.
"""

import ctypes
import json
import sys
import time

import xsched

FILLS = 40
SIZE = 4 << 20


def main() -> None:
    runtime = ctypes.CDLL(sys.argv[1])

    def call(function, *arguments):
        error = getattr(runtime, function)(*arguments)
        assert error == 0, f"{function}: {error}"

    memory, stream = ctypes.c_void_p(), ctypes.c_void_p()
    call("hipMalloc", ctypes.byref(memory), ctypes.c_size_t(SIZE))
    call("hipStreamCreate", ctypes.byref(stream))
    say(joined=True)
    with xsched.priority(sys.argv[2]):
        say(entered=True)
        for fill in range(FILLS):
            call("hipMemsetAsync", memory, fill, ctypes.c_size_t(SIZE), stream)
        call("hipStreamSynchronize", stream)
        done_ns = time.monotonic_ns()
        status = xsched.status()
        say(
            done_ns=done_ns,
            scheduling=status.scheduling,
            class_name=status.granted.class_name,
            source=status.granted.source,
        )
    say(left=True)


def say(**words) -> None:
    print(json.dumps(words), flush=True)
    sys.stdin.readline()


main()
