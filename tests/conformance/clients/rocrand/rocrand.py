"""rocRAND through its C API: `rocrand.py LIBRARY CHECK`. Ends with status 0 if the check holds.

The library finds the HIP runtime by itself; so does this script, by the same name.
"""

import ctypes
import math
import sys
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

SUCCESS = 0
DEVICE_TO_HOST = 2
XORWOW, MRG32K3A, MTGP32, PHILOX, SOBOL32, SOBOL64 = 401, 402, 403, 404, 501, 504

hip = ctypes.CDLL("libamdhip64.so.5")
rocrand = ctypes.CDLL(sys.argv[1])


def ok(code):
    assert code == SUCCESS, f"status {code}"


class Generator:
    def __init__(self, kind, seed=None):
        self.handle = c_void_p()
        ok(rocrand.rocrand_create_generator(byref(self.handle), kind))
        if seed is not None:
            ok(rocrand.rocrand_set_seed(self.handle, c_ulonglong(seed)))

    def call(self, function, *arguments):
        ok(getattr(rocrand, function)(self.handle, *arguments))

    def numbers(self, count):
        """Generates that many unsigned numbers on the device, and fetches them."""
        memory = c_void_p()
        found = (c_uint * count)()
        ok(hip.hipMalloc(byref(memory), c_size_t(4 * count)))
        ok(hip.hipMemset(memory, 0, c_size_t(4 * count)))
        self.call("rocrand_generate", memory, c_size_t(count))
        ok(hip.hipMemcpy(found, memory, c_size_t(4 * count), DEVICE_TO_HOST))
        ok(hip.hipFree(memory))
        return list(found)

    def destroy(self):
        ok(rocrand.rocrand_destroy_generator(self.handle))


def every_generator_launches_its_kernels():
    """No more than that: what the kernels compute is not looked at."""
    memory = c_void_p()
    count = c_size_t(4096)
    ok(hip.hipMalloc(byref(memory), c_size_t(8 * 4096)))
    for kind in XORWOW, MRG32K3A, MTGP32, PHILOX, SOBOL32, SOBOL64:
        generator = Generator(kind, None if kind in (SOBOL32, SOBOL64) else 1234)
        generator.call("rocrand_initialize_generator")
        generator.call("rocrand_generate", memory, count)
        generator.call("rocrand_generate_uniform", memory, count)
        generator.call("rocrand_generate_uniform_double", memory, count)
        generator.call("rocrand_generate_normal", memory, count, c_float(0), c_float(1))
        generator.call("rocrand_generate_log_normal", memory, count, c_float(0), c_float(1))
        generator.call("rocrand_generate_poisson", memory, count, c_double(10))
        generator.destroy()
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipFree(memory))


def philox_gives_the_published_numbers():
    """The test vector of Random123 for counter and key of zero."""
    generator = Generator(PHILOX, 0)
    found = generator.numbers(4)
    assert found == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], found
    generator.destroy()


def a_sequence_goes_on_where_it_stopped():
    seed = 0x1111111122222222
    whole, parts, later = Generator(PHILOX, seed), Generator(PHILOX, seed), Generator(PHILOX, seed)
    expected = whole.numbers(2006)
    assert len(set(expected)) > 2000
    assert parts.numbers(1003) + parts.numbers(1003) == expected
    later.call("rocrand_set_offset", c_ulonglong(85))
    assert later.numbers(100) == expected[85:185]
    for generator in whole, parts, later:
        generator.destroy()


def streams_keep_their_own_order():
    stream = c_void_p()
    ok(hip.hipStreamCreateWithFlags(byref(stream), 1))
    memory, found = c_void_p(), (c_uint * 1000)()
    ok(hip.hipMalloc(byref(memory), c_size_t(4000)))
    generator = Generator(PHILOX, 7)
    generator.call("rocrand_set_stream", stream)
    for _ in range(10):
        generator.call("rocrand_generate", memory, c_size_t(1000))
    ok(hip.hipMemcpyAsync(found, memory, c_size_t(4000), DEVICE_TO_HOST, stream))
    ok(hip.hipStreamSynchronize(stream))
    reference = Generator(PHILOX, 7)
    assert list(found) == reference.numbers(10000)[9000:]
    generator.destroy()
    reference.destroy()
    ok(hip.hipStreamDestroy(stream))
    ok(hip.hipFree(memory))


def sobol_gives_the_published_points():
    """The first points in two dimensions: the direction numbers are those that the library has copied to the device."""
    generator = Generator(SOBOL32)
    generator.call("rocrand_set_quasi_random_generator_dimensions", c_uint(2))
    found = [number / 2**32 for number in generator.numbers(16)]
    points = list(zip(found[:8], found[8:]))
    expected = [(0, 0), (0.5, 0.5), (0.75, 0.25), (0.25, 0.75), (0.375, 0.375), (0.875, 0.875), (0.625, 0.125), (0.125, 0.625)]
    assert points == expected, points
    generator.destroy()


def poisson_tables_are_right():
    """Computed by the library on the host and copied to the device, where this reads them."""

    class Tables(ctypes.Structure):
        _fields_ = [("size", c_uint), ("offset", c_uint)] + [(name, c_void_p) for name in ("alias", "probability", "cdf")]

    rate = 4.0
    address, tables = c_void_p(), Tables()
    ok(rocrand.rocrand_create_poisson_distribution(c_double(rate), byref(address)))
    ok(hip.hipMemcpy(byref(tables), address, c_size_t(ctypes.sizeof(tables)), DEVICE_TO_HOST))
    found = (c_double * tables.size)()
    ok(hip.hipMemcpy(found, c_void_p(tables.cdf), c_size_t(8 * tables.size), DEVICE_TO_HOST))
    expected = 0.0
    for value in range(tables.offset + tables.size):
        expected += math.exp(-rate) * rate**value / math.factorial(value)
        if value >= tables.offset:
            assert abs(found[value - tables.offset] - expected) < 1e-9, (value, found[value - tables.offset], expected)
    assert expected > 0.999999
    ok(rocrand.rocrand_destroy_discrete_distribution(address))


def errors_are_reported():
    handle = c_void_p()
    assert rocrand.rocrand_create_generator(byref(handle), 999) == 103
    generator = Generator(PHILOX)
    quasi = Generator(SOBOL32)
    assert rocrand.rocrand_set_seed(quasi.handle, c_ulonglong(1)) == 103
    generator.destroy()
    quasi.destroy()
    version = c_int()
    ok(rocrand.rocrand_get_version(byref(version)))
    assert version.value == 201009, version.value


globals()[sys.argv[2]]()
