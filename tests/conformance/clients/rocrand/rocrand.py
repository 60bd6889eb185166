"""rocRAND through its C API: `rocrand.py LIBRARY REFERENCE CHECK`. Ends with status 0 if the check holds.

The library and this script each load the HIP runtime by the same name. REFERENCE is the compiled `reference.cpp`:
rocRAND's own device functions on the host.
"""

import ctypes
import math
import struct
import sys
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

SUCCESS = 0
DEVICE_TO_HOST = 2
XORWOW, MRG32K3A, MTGP32, PHILOX, SOBOL32, SOBOL64 = 401, 402, 403, 404, 501, 504

hip = ctypes.CDLL("libamdhip64.so.5")
rocrand = ctypes.CDLL(sys.argv[1])
reference = ctypes.CDLL(sys.argv[2])


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

    def generate(self, function, element, count, *arguments):
        """Generates that many elements on the device, and copies them back."""
        memory = c_void_p()
        found = (element * count)()
        size = c_size_t(ctypes.sizeof(found))
        ok(hip.hipMalloc(byref(memory), size))
        ok(hip.hipMemset(memory, 0, size))
        self.call(function, memory, c_size_t(count), *arguments)
        ok(hip.hipMemcpy(found, memory, size, DEVICE_TO_HOST))
        ok(hip.hipFree(memory))
        return list(found)

    def numbers(self, count):
        return self.generate("rocrand_generate", c_uint, count)

    def destroy(self):
        ok(rocrand.rocrand_destroy_generator(self.handle))


class Tables(ctypes.Structure):
    """Tables of a discrete distribution, in device or host memory."""

    _fields_ = [("size", c_uint), ("offset", c_uint)] + [(name, c_void_p) for name in ("alias", "probability", "cdf")]

    @classmethod
    def poisson(cls, rate):
        """The library's tables, copied to host arrays that live as long."""
        address, tables = c_void_p(), cls()
        ok(rocrand.rocrand_create_poisson_distribution(c_double(rate), byref(address)))
        ok(hip.hipMemcpy(byref(tables), address, c_size_t(ctypes.sizeof(tables)), DEVICE_TO_HOST))
        tables.arrays = {}
        for name, element in (("alias", c_uint), ("probability", c_double), ("cdf", c_double)):
            array = (element * tables.size)()
            ok(hip.hipMemcpy(array, c_void_p(getattr(tables, name)), c_size_t(ctypes.sizeof(array)), DEVICE_TO_HOST))
            tables.arrays[name] = array
            setattr(tables, name, ctypes.addressof(array))
        ok(rocrand.rocrand_destroy_discrete_distribution(address))
        return tables


class Shape:
    """A distribution: the library's function, its arguments, and its number in `reference_shape`."""

    def __init__(self, number, function, element, *arguments, precision=0.0):
        self.number, self.function, self.element, self.arguments = number, function, element, arguments
        # Numbers of a uniform distribution are exact. In others the device's logarithms and sines differ from
        # the host's.
        self.precision = precision

    def inputs(self, kind):
        """How many numbers of a pseudo-random engine one group of values takes, and how many values are in it."""
        is_normal = 3 <= self.number <= 6
        is_double = self.element is c_double and kind != MRG32K3A
        return (2 if is_normal else 1) * (2 if is_double else 1), 2 if is_normal else 1

    def apply(self, kind, numbers, count, tables):
        numbers = (c_ulonglong * 4)(*numbers)
        mean, deviation = [argument.value for argument in self.arguments] if len(self.arguments) == 2 else (0, 1)
        values = (c_double * 2)()
        reference.reference_shape(
            kind, self.number, c_double(mean), c_double(deviation), byref(tables), numbers, values
        )
        return list(values)[:count]

    def agrees(self, found, expected):
        return abs(found - expected) <= self.precision * max(1.0, abs(expected))


RATE = 10.0
SHAPES = [
    Shape(0, "rocrand_generate", c_uint),
    Shape(1, "rocrand_generate_uniform", c_float),
    Shape(2, "rocrand_generate_uniform_double", c_double),
    Shape(3, "rocrand_generate_normal", c_float, c_float(3), c_float(2), precision=3e-6),
    Shape(4, "rocrand_generate_normal_double", c_double, c_double(3), c_double(2), precision=1e-12),
    Shape(5, "rocrand_generate_log_normal", c_float, c_float(0.5), c_float(0.25), precision=3e-6),
    Shape(6, "rocrand_generate_log_normal_double", c_double, c_double(0.5), c_double(0.25), precision=1e-12),
    Shape(7, "rocrand_generate_poisson", c_uint, c_double(RATE)),
]
ENGINES = 131072  # of XORWOW and MRG32k3a
BLOCKS, BLOCK = 512, 256  # of MTGP32


def reference_numbers(kind, seed, subsequence, offset, count):
    numbers = (c_ulonglong * count)()
    reference.reference_numbers(kind, c_ulonglong(seed), subsequence, offset, numbers, c_size_t(count))
    return list(numbers)


def pseudo_random(kind, seed, groups):
    """Every shape of a generator in each of these groups, which are all among the first generated values."""
    tables = Tables.poisson(RATE)
    for shape in SHAPES:
        width, values = shape.inputs(kind)
        count = (max(groups) + 1) * values
        generator = Generator(kind, seed)
        found = generator.generate(shape.function, shape.element, count, *shape.arguments)
        generator.destroy()
        for group in groups:
            if kind == PHILOX:
                numbers = reference_numbers(kind, seed, 0, group * width, width)
            elif kind == MTGP32:
                # A block takes as many steps as a group needs numbers; each step gives every thread one.
                step, within = divmod(group, BLOCKS * BLOCK)
                block, thread = divmod(within, BLOCK)
                sequence = reference_numbers(kind, seed, block, 0, BLOCK * width * (step + 1))
                numbers = sequence[BLOCK * width * step + thread :: BLOCK]
            else:
                step, engine = divmod(group, ENGINES)
                numbers = reference_numbers(kind, seed, engine, 0, width * (step + 1))[-width:]
            expected = shape.apply(kind, numbers, values, tables)
            for value, right in zip(found[group * values :], expected):
                assert shape.agrees(value, right), (shape.function, group, value, right)


def groups_across(*positions):
    """Some groups at the beginning, and around each of these positions."""
    near = [group for step in positions for group in range(step - 2, step + 2)]
    return sorted({0, 1, 2, 100, 255, 256, *near})


def quasi_random(kind):
    tables, dimensions, count = Tables.poisson(RATE), 3, 300
    for shape in SHAPES:
        generator = Generator(kind)
        generator.call("rocrand_set_quasi_random_generator_dimensions", c_uint(dimensions))
        found = generator.generate(shape.function, shape.element, count * dimensions, *shape.arguments)
        generator.destroy()
        for dimension in range(dimensions):
            numbers = reference_numbers(kind, 0, dimension, 0, count)
            for index, number in enumerate(numbers):
                (right,) = shape.apply(kind, [number], 1, tables)
                value = found[dimension * count + index]
                assert shape.agrees(value, right) or value == right, (shape.function, dimension, index, value, right)


def philox_agrees_with_its_device_functions():
    for seed in 0, 0xDEADBEEF12345678:
        pseudo_random(PHILOX, seed, groups_across(4096))


def xorwow_agrees_with_its_device_functions():
    for seed in 0, 0xDEADBEEF12345678:
        pseudo_random(XORWOW, seed, groups_across(ENGINES))


def mrg32k3a_agrees_with_its_device_functions():
    """Large seeds wrap in the library's arithmetic."""
    for seed in 0, 12345, 0xDEADBEEF12345678, 0xFFFFFFFFFFFFFFFF:
        pseudo_random(MRG32K3A, seed, groups_across(ENGINES))


def mtgp32_agrees_with_the_published_recurrence():
    for seed in 0, 0xDEADBEEF12345678:
        pseudo_random(MTGP32, seed, groups_across(BLOCKS * BLOCK))


def sobol32_agrees_with_its_device_functions():
    quasi_random(SOBOL32)


def sobol64_agrees_with_its_device_functions():
    quasi_random(SOBOL64)


def short_numbers_are_pieces_of_long_ones():
    """Bytes, 16 bits and halves: all pieces of pseudo-random numbers, the highest of quasi-random ones."""
    count = 4096
    for kind in XORWOW, MRG32K3A, MTGP32, PHILOX, SOBOL32, SOBOL64:
        is_quasi = kind in (SOBOL32, SOBOL64)

        def generated(function, element, pieces):
            generator = Generator(kind, None if is_quasi else 77)
            found = generator.generate(function, element, count * (1 if is_quasi else pieces))
            generator.destroy()
            return found

        whole = generated("rocrand_generate", c_uint, 1)

        def pieces(size):
            if is_quasi:
                return [number >> 32 - 8 * size for number in whole]
            return [number >> 8 * at & 2 ** (8 * size) - 1 for number in whole for at in range(0, 4, size)]

        assert generated("rocrand_generate_char", ctypes.c_ubyte, 4) == pieces(1), kind
        assert generated("rocrand_generate_short", ctypes.c_ushort, 2) == pieces(2), kind
        halves = generated("rocrand_generate_uniform_half", ctypes.c_ushort, 2)
        assert halves == [half((piece + 1) / 2**16) for piece in pieces(2)], kind


def half(value):
    """The bits of the nearest number in half precision."""
    (bits,) = struct.unpack("<H", struct.pack("<e", value))
    return bits


def xorwow_gives_the_published_numbers():
    """Marsaglia's first numbers: this seed leaves the published state unchanged. Engines' first numbers come before second ones."""
    generator = Generator(XORWOW, 0xA03697CB2C7F967F)
    found = generator.numbers(4 * ENGINES + 1)[::ENGINES]
    x, d, expected = [123456789, 362436069, 521288629, 88675123, 5783321], 6615241, []
    for _ in range(5):
        t = x[0] ^ x[0] >> 2
        x = x[1:] + [(x[4] ^ x[4] << 4 ^ t ^ t << 1) & 0xFFFFFFFF]
        d = (d + 362437) & 0xFFFFFFFF
        expected.append((d + x[4]) & 0xFFFFFFFF)
    assert expected == [246875399, 3690007200, 1264581005, 3906711041, 1866187943], expected
    assert found == expected, found
    generator.destroy()


def mrg32k3a_has_the_published_streams():
    """MRG32k3a's streams are 2^76 numbers long, as L'Ecuyer's; in integers. (rocRAND's documentation says 2^67.)"""
    m1, m2, seed = 2**32 - 209, 2**32 - 22853, 1234

    def jumped(state, matrix, modulus):
        for _ in range(76):
            matrix = [[sum(a * b for a, b in zip(row, column)) % modulus for column in zip(*matrix)] for row in matrix]
        return [sum(a * b for a, b in zip(row, state)) % modulus for row in matrix]

    x, y = seed ^ 0x55555555, 0xAAAAAAAA
    first, second = [seed * part % m1 for part in (x, y, x)], [seed * part % m2 for part in (y, x, y)]
    expected = []
    for _ in range(3):
        p1 = (1403580 * first[1] - 810728 * first[0]) % m1
        p2 = (527612 * second[2] - 1370589 * second[0]) % m2
        number = (p1 - p2) % m1 or m1
        expected.append(int((number - 1) * 1.000000048661607))
        first = jumped(first, [[0, 1, 0], [0, 0, 1], [-810728, 1403580, 0]], m1)
        second = jumped(second, [[0, 1, 0], [0, 0, 1], [-1370589, 0, 527612]], m2)
    generator = Generator(MRG32K3A, seed)
    found = generator.numbers(3)
    assert found == expected, (found, expected)
    generator.destroy()


def distributions_have_their_moments():
    """Mean and variance of each pseudo-random generator, within six standard errors."""
    count = 100_000
    e = math.exp
    log_mean, log_variance = e(0.5 + 0.25**2 / 2), (e(0.25**2) - 1) * e(1 + 0.25**2)
    moments = [(2**31, 2**64 / 12), (0.5, 1 / 12), (0.5, 1 / 12), (3, 4), (3, 4)]
    moments += [(log_mean, log_variance)] * 2 + [(RATE, RATE)]
    for kind in XORWOW, MRG32K3A, MTGP32, PHILOX:
        generator = Generator(kind, 42)
        for shape, (mean, variance) in zip(SHAPES, moments):
            found = generator.generate(shape.function, shape.element, count, *shape.arguments)
            error = abs(sum(found) / count - mean)
            assert error < 6 * math.sqrt(variance / count), (kind, shape.function, error)
            spread = sum((value - mean) ** 2 for value in found) / count
            assert abs(spread / variance - 1) < 0.05, (kind, shape.function, spread, variance)
        generator.destroy()


def philox_gives_the_published_numbers():
    """The test vector of Random123 for counter and key of zero."""
    generator = Generator(PHILOX, 0)
    found = generator.numbers(4)
    assert found == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], found
    generator.destroy()


def a_sequence_goes_on_where_it_stopped():
    """It begins at an offset too. MTGP32's blocks take whole steps, so its parts must be whole rounds of them."""
    seed = 0x1111111122222222
    for kind, part in (PHILOX, 1003), (XORWOW, 70_001), (MRG32K3A, 70_001), (MTGP32, BLOCKS * BLOCK):
        whole, parts = Generator(kind, seed), Generator(kind, seed)
        expected = whole.numbers(2 * part)
        assert len(set(expected)) > 1.99 * part, kind
        assert parts.numbers(part) + parts.numbers(part) == expected, kind
        if kind != MTGP32:
            later = Generator(kind, seed)
            later.call("rocrand_set_offset", c_ulonglong(85))
            assert later.numbers(part) == expected[85 : 85 + part], kind
            later.destroy()
        whole.destroy()
        parts.destroy()


def groups_that_are_not_aligned_are_made_at_the_ends():
    """Pairs are stored aligned; the first and last of an odd range are taken from the engine after all others."""
    count, tables, shape = 1002, Tables.poisson(RATE), SHAPES[3]
    memory, found = c_void_p(), (c_float * count)()
    ok(hip.hipMalloc(byref(memory), c_size_t(4 * (count + 1))))
    for kind in XORWOW, MRG32K3A:
        generator = Generator(kind, 5)
        generator.call(shape.function, c_void_p(memory.value + 4), c_size_t(count), *shape.arguments)
        ok(hip.hipMemcpy(found, c_void_p(memory.value + 4), c_size_t(4 * count), DEVICE_TO_HOST))
        pairs = [shape.apply(kind, reference_numbers(kind, 5, engine, 0, 2), 2, tables) for engine in range(500)]
        ends = reference_numbers(kind, 5, 500, 0, 4)
        head, tail = (shape.apply(kind, ends[at : at + 2], 2, tables) for at in (0, 2))
        expected = [head[0], *(value for pair in pairs for value in pair), tail[0]]
        assert all(map(shape.agrees, found, expected)), kind
        generator.destroy()
    ok(hip.hipFree(memory))


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
    """The first points in two dimensions: the library has copied the direction numbers to the device."""
    generator = Generator(SOBOL32)
    generator.call("rocrand_set_quasi_random_generator_dimensions", c_uint(2))
    found = [number / 2**32 for number in generator.numbers(16)]
    points = list(zip(found[:8], found[8:]))
    expected = [(0, 0), (0.5, 0.5), (0.75, 0.25), (0.25, 0.75), (0.375, 0.375), (0.875, 0.875), (0.625, 0.125), (0.125, 0.625)]
    assert points == expected, points
    generator.destroy()


def poisson_tables_are_right():
    """Computed by the library on the host and copied to the device, where this reads them."""
    rate, expected = 4.0, 0.0
    tables = Tables.poisson(rate)
    found = tables.arrays["cdf"]
    for value in range(tables.offset + tables.size):
        expected += math.exp(-rate) * rate**value / math.factorial(value)
        if value >= tables.offset:
            assert abs(found[value - tables.offset] - expected) < 1e-9, (value, found[value - tables.offset], expected)
    assert expected > 0.999999


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


globals()[sys.argv[3]]()
