"""A process that asks for levels, works on the device, and says when it was done. Each line of its input lets it go on.

Its arguments are a runtime and a priority for itself; or a runtime and several priorities for a stream each. The runtime is
libamdhip64's file, or `hip-python` for the package of that name.
"""

import ctypes
import json
import sys
import threading
import time

import xsched

FILLS = 40
SIZE = 4 << 20


class FileRuntime:
    """The calls by ctypes."""

    def __init__(self, file):
        self.library = ctypes.CDLL(file)

    def call(self, function, *arguments):
        error = getattr(self.library, function)(*arguments)
        assert error == 0, f"{function}: {error}"

    def allocate(self):
        memory = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(memory), ctypes.c_size_t(SIZE))
        return memory

    def create(self):
        stream = ctypes.c_void_p()
        self.call("hipStreamCreate", ctypes.byref(stream))
        return stream, stream.value

    def fill(self, memory, value, stream):
        self.call("hipMemsetAsync", memory, value, ctypes.c_size_t(SIZE), stream)

    def wait(self, stream):
        self.call("hipStreamSynchronize", stream)

    def destroy(self, stream):
        self.call("hipStreamDestroy", stream)


class HipPython:
    """The same by hip-python."""

    def __init__(self):
        from hip import hip

        self.hip = hip

    def value(self, answer):
        code, *values = answer
        assert code == self.hip.hipError_t.hipSuccess, code
        return values[0] if values else None

    def allocate(self):
        return self.value(self.hip.hipMalloc(SIZE))

    def create(self):
        stream = self.value(self.hip.hipStreamCreate())
        return stream, int(stream)

    def fill(self, memory, value, stream):
        self.value(self.hip.hipMemsetAsync(memory, value, SIZE, stream))

    def wait(self, stream):
        self.value(self.hip.hipStreamSynchronize(stream))

    def destroy(self, stream):
        self.value(self.hip.hipStreamDestroy(stream))


runtime = HipPython() if sys.argv[1] == "hip-python" else FileRuntime(sys.argv[1])


class TorchStream:
    """What the package knows of one."""

    def __init__(self):
        self.memory = runtime.allocate()
        self.stream, self.cuda_stream = runtime.create()

    def work(self):
        """Returns when it was done."""
        for fill in range(FILLS):
            runtime.fill(self.memory, fill, self.stream)
        runtime.wait(self.stream)
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
    runtime.destroy(all_streams.pop(levels[0]).stream)
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
