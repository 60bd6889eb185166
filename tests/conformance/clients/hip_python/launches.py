"""Launches through hip-python: `launches.py MODULE COUNT`, alternately from functions with different call chains.

Python functions that call each other share one frame of the interpreter; callbacks from C add frames.
"""

import array
import ctypes
import functools
import sys

from hip import hip


def ok(answer):
    code, *values = answer
    assert code == hip.hipError_t.hipSuccess, code
    return values[0] if len(values) == 1 else values


with open(sys.argv[1], "rb") as file:
    module = ok(hip.hipModuleLoadData(file.read()))
function = ok(hip.hipModuleGetFunction(module, b"module_affine"))
data = ok(hip.hipMalloc(4))
arguments = (data, ctypes.c_uint(1), ctypes.c_uint(3), ctypes.c_uint(1))


def leaf(*_):
    one = (1, 1, 1)
    launched = hip.hipModuleLaunchKernel(
        function, *one, *one, sharedMemBytes=0, stream=None, kernelParams=None, extra=arguments
    )
    ok(launched)
    return 0


def deep(levels):
    return leaf() if levels == 0 else deep(levels - 1)


def mapped(levels):
    return leaf() if levels == 0 else sum(map(mapped, [levels - 1]))


class Attribute:
    def __getattr__(self, name):
        return leaf()


def generated():
    yield leaf()


callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(leaf)
numbers = array.array("i", [1, 2])
qsort = ctypes.CDLL(None).qsort

ways = [
    leaf,
    lambda: deep(20),
    lambda: mapped(1),
    lambda: mapped(8),
    lambda: sorted([0], key=leaf),
    lambda: functools.reduce(leaf, [0, 1]),
    lambda: Attribute().launch,
    lambda: list(generated()),
    lambda: qsort((ctypes.c_int * 2)(*numbers), 2, 4, callback),
]
for launch in range(int(sys.argv[2])):
    ways[launch % len(ways)]()
ok(hip.hipFree(data))
