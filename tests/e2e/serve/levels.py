"""A process that asks for levels, works on the device, and says when it was done. Each line of its input lets it go on.

Its arguments are a runtime and a priority for itself; or a runtime and several priorities for a stream each.
"""

import ctypes
import json
import sys
import threading
import time

import xsched

FILLS = 40
SIZE = 4 << 20


runtime = ctypes.CDLL(sys.argv[1])


def call(function, *arguments):
    error = getattr(runtime, function)(*arguments)
    assert error == 0, f"{function}: {error}"


class TorchStream:
    """What the package knows of one."""

    def __init__(self):
        self.memory, stream = ctypes.c_void_p(), ctypes.c_void_p()
        call("hipMalloc", ctypes.byref(self.memory), ctypes.c_size_t(SIZE))
        call("hipStreamCreate", ctypes.byref(stream))
        self.cuda_stream = stream.value

    def work(self):
        """Returns when it was done."""
        stream = ctypes.c_void_p(self.cuda_stream)
        for fill in range(FILLS):
            call("hipMemsetAsync", self.memory, fill, ctypes.c_size_t(SIZE), stream)
        call("hipStreamSynchronize", stream)
        return time.monotonic_ns()


def one_process(level) -> None:
    stream = TorchStream()
    say(joined=True)
    with xsched.priority(level):
        say(entered=True)
        done_ns = stream.work()
        status = xsched.status()
        granted = status.granted
        say(done_ns=done_ns, scheduling=status.scheduling, class_name=granted.class_name, source=granted.source)
    say(left=True)


def streams(levels) -> None:
    done = {}

    def work(level, stream):
        done[level] = stream.work()

    all_streams = {level: TorchStream() for level in levels}
    contexts = [xsched.priority(level, stream=stream) for level, stream in all_streams.items()]
    for context in contexts:
        context.__enter__()
    say(entered=True)
    threads = [threading.Thread(target=work, args=each) for each in all_streams.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(order=sorted(done, key=done.get))
    # A stream may go before what was asked for it ends.
    call("hipStreamDestroy", ctypes.c_void_p(all_streams.pop(levels[0]).cuda_stream))
    for context in contexts:
        context.__exit__(None, None, None)
    say(left=True)


def say(**words) -> None:
    print(json.dumps(words), flush=True)
    sys.stdin.readline()


if len(sys.argv) == 3:
    one_process(sys.argv[2])
else:
    streams(sys.argv[2:])
