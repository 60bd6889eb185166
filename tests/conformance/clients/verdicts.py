"""Launches by third-party libraries, for tests of the origin that is reported for them.

    verdicts.py rocrand HIPRAND ROCRAND [hiprand|rocrand]    numbers by that library; hipRAND launches through rocRAND
    verdicts.py rocsparse HIPSPARSE ROCSPARSE [hipsparse|rocsparse]   y += a x by that library, x sparse
    verdicts.py hip-python MODULE COUNT                      COUNT launches through hip-python

Like `tests/apps/callers`, it prints `ready` and its id, fills memory until it reads a line, prints `warm 1` and waits for
another line. Its last line says whether any result was `wrong`.
"""

import ctypes
import os
import select
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p

COUNT = 1024
TIMES = 3
DEVICE_TO_HOST = 2


def say(name, value):
    print(name, value, flush=True)


def begin(fill):
    say("ready", os.getpid())
    while not select.select([0], [], [], 0.002)[0]:
        fill()
    # Byte by byte, so that the next line is left.
    take_a_line()
    say("warm", 1)
    take_a_line()


def take_a_line():
    while os.read(0, 1) not in (b"\n", b""):
        pass


def ok(code):
    assert int(code) == 0, f"status {code}"


def rocrand(hiprand_file, rocrand_file, which):
    hip = ctypes.CDLL("libamdhip64.so.5")
    libraries = {"rocrand": ctypes.CDLL(rocrand_file), "hiprand": ctypes.CDLL(hiprand_file)}
    # Each library numbers Philox differently.
    create, generate, kind = {
        "rocrand": ("rocrand_create_generator", "rocrand_generate", 404),
        "hiprand": ("hiprandCreateGenerator", "hiprandGenerate", 405),
    }[which]
    library = libraries[which]
    memory, stream = c_void_p(), c_void_p()
    numbers = (c_uint * COUNT)()
    size = c_size_t(ctypes.sizeof(numbers))
    ok(hip.hipMalloc(byref(memory), size))

    def fill():
        ok(hip.hipMemsetAsync(memory, c_int(0), size, stream))
        ok(hip.hipStreamSynchronize(stream))

    begin(fill)
    generator = c_void_p()
    ok(library[create](byref(generator), c_int(kind)))
    for _ in range(TIMES):
        ok(library[generate](generator, memory, c_size_t(COUNT)))
    ok(hip.hipMemcpy(numbers, memory, size, c_int(DEVICE_TO_HOST)))
    say("wrong", int(sum(number == 0 for number in numbers) > 1))


def rocsparse(hipsparse_file, rocsparse_file, which):
    """Launches of a library with 1.2 GB of kernels and no executor: in the runtime's null mode, by hand."""
    hip = ctypes.CDLL("libamdhip64.so.5")
    libraries = {"rocsparse": ctypes.CDLL(rocsparse_file), "hipsparse": ctypes.CDLL(hipsparse_file)}
    create, add = {
        "rocsparse": ("rocsparse_create_handle", "rocsparse_saxpyi"),
        "hipsparse": ("hipsparseCreate", "hipsparseSaxpyi"),
    }[which]
    library = libraries[which]
    memory, stream, handle = c_void_p(), c_void_p(), c_void_p()
    size = c_size_t(COUNT * 4)
    ok(hip.hipMalloc(byref(memory), c_size_t(3 * COUNT * 4)))
    values, indices, y = (c_void_p(memory.value + n * COUNT * 4) for n in range(3))

    def fill():
        ok(hip.hipMemsetAsync(memory, c_int(0), size, stream))
        ok(hip.hipStreamSynchronize(stream))

    begin(fill)
    ok(library[create](byref(handle)))
    for _ in range(TIMES):
        ok(library[add](handle, c_int(COUNT), byref(ctypes.c_float(2)), values, indices, y, c_int(0)))
    ok(hip.hipDeviceSynchronize())
    say("wrong", 0)


def hip_python(module_file, count):
    from hip import hip

    def get(answer):
        code, *values = answer
        ok(code)
        return values[0] if len(values) == 1 else values

    with open(module_file, "rb") as file:
        module = get(hip.hipModuleLoadData(file.read()))
    function = get(hip.hipModuleGetFunction(module, b"module_affine"))
    data = get(hip.hipMalloc(4))

    def fill():
        get(hip.hipMemsetAsync(data, 0, 4, None))
        get(hip.hipStreamSynchronize(None))

    begin(fill)
    fill()
    one = (1, 1, 1)
    for _ in range(int(count)):
        launched = hip.hipModuleLaunchKernel(
            function,
            *one,
            *one,
            sharedMemBytes=0,
            stream=None,
            kernelParams=None,
            extra=(data, c_uint(1), c_uint(3), c_uint(1)),
        )
        get(launched)
    found = (c_uint * 1)()
    get(hip.hipMemcpy(found, data, 4, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    expected = 0
    for _ in range(int(count)):
        expected = (expected * 3 + 1) % 2**32
    say("wrong", int(found[0] != expected))


{"rocrand": rocrand, "rocsparse": rocsparse, "hip-python": hip_python}[sys.argv[1]](*sys.argv[2:])
