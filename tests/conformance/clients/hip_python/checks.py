"""HIP through hip-python: `checks.py MODULE CHECK`. Ends with status 0 if the check holds.

MODULE is the code object with the suite's kernels (tests/conformance/modules/module.hip).
"""

import array
import ctypes
import sys
import threading

from hip import hip

COUNT = 1000
BLOCK = 256
Kind = hip.hipMemcpyKind
Error = hip.hipError_t


def ok(answer):
    """The values of a call that must have succeeded."""
    code, *values = answer
    assert code == Error.hipSuccess, code
    return values[0] if len(values) == 1 else values


def words(count, value=0):
    return array.array("I", [value] * count)


class Affine:
    """The kernel data[i] = data[i] * factor + term, launched through `extra` as hip-python does."""

    def __init__(self):
        with open(sys.argv[1], "rb") as file:
            self.image = file.read()
        self.module = ok(hip.hipModuleLoadData(self.image))
        self.function = ok(hip.hipModuleGetFunction(self.module, b"module_affine"))

    def launch(self, data, factor, term, stream=None, count=COUNT):
        ok(
            hip.hipModuleLaunchKernel(
                self.function,
                *((count + BLOCK - 1) // BLOCK, 1, 1),
                *(BLOCK, 1, 1),
                sharedMemBytes=0,
                stream=stream,
                kernelParams=None,
                extra=(data, ctypes.c_uint(count), ctypes.c_uint(factor), ctypes.c_uint(term)),
            )
        )

    def unload(self):
        ok(hip.hipModuleUnload(self.module))


def the_device_describes_itself():
    assert ok(hip.hipGetDeviceCount()) >= 1
    properties = hip.hipDeviceProp_t()
    ok(hip.hipGetDeviceProperties(properties, 0))
    assert properties.gcnArchName.startswith(b"gfx"), properties.gcnArchName
    attribute = hip.hipDeviceAttribute_t
    for name, value in (
        (attribute.hipDeviceAttributeMaxThreadsPerBlock, properties.maxThreadsPerBlock),
        (attribute.hipDeviceAttributeMultiprocessorCount, properties.multiProcessorCount),
        (attribute.hipDeviceAttributeWarpSize, properties.warpSize),
        (attribute.hipDeviceAttributePciBusId, properties.pciBusID),
    ):
        assert ok(hip.hipDeviceGetAttribute(name, 0)) == value, name
    free, total = ok(hip.hipMemGetInfo())
    assert 0 < free <= total == properties.totalGlobalMem


def memory_goes_there_and_back():
    host = array.array("I", range(COUNT))
    size = COUNT * host.itemsize
    first, second = ok(hip.hipMalloc(size)), ok(hip.hipMalloc(size))
    back = words(COUNT)
    ok(hip.hipMemcpy(first, host, size, Kind.hipMemcpyHostToDevice))
    ok(hip.hipMemcpy(second, first, size, Kind.hipMemcpyDeviceToDevice))
    ok(hip.hipMemset(first, 0, size))
    ok(hip.hipMemcpy(back, second, size, Kind.hipMemcpyDeviceToHost))
    assert back == host
    ok(hip.hipMemcpy(back, first, size, Kind.hipMemcpyDeviceToHost))
    assert back == words(COUNT)
    ok(hip.hipFree(first))
    ok(hip.hipFree(second))


def a_kernel_is_launched_through_extra():
    affine = Affine()
    size = COUNT * 4
    data = ok(hip.hipMalloc(size))
    host = array.array("I", range(COUNT))
    ok(hip.hipMemcpy(data, host, size, Kind.hipMemcpyHostToDevice))
    affine.launch(data, 3, 7)
    ok(hip.hipMemcpy(host, data, size, Kind.hipMemcpyDeviceToHost))
    assert host == array.array("I", (3 * i + 7 for i in range(COUNT)))
    ok(hip.hipFree(data))
    affine.unload()


def streams_and_events_order_and_time():
    affine = Affine()
    size = COUNT * 4
    first, second = (ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)) for _ in range(2))
    start, middle, stop = (ok(hip.hipEventCreate()) for _ in range(3))
    data, host = ok(hip.hipMalloc(size)), words(COUNT)
    ok(hip.hipMemsetAsync(data, 0, size, first))
    ok(hip.hipEventRecord(start, first))
    expected = 0
    for step in range(50):
        affine.launch(data, 2, step, first)
        expected = (expected * 2 + step) % 2**32
    ok(hip.hipEventRecord(middle, first))
    ok(hip.hipStreamWaitEvent(second, middle, 0))
    affine.launch(data, 1, 1, second)
    ok(hip.hipEventRecord(stop, second))
    ok(hip.hipEventSynchronize(stop))
    ok(hip.hipEventQuery(stop))
    ok(hip.hipMemcpy(host, data, size, Kind.hipMemcpyDeviceToHost))
    assert host == words(COUNT, (expected + 1) % 2**32)
    assert ok(hip.hipEventElapsedTime(start, middle)) > 0
    assert ok(hip.hipEventElapsedTime(start, stop)) >= ok(hip.hipEventElapsedTime(start, middle))
    for event in start, middle, stop:
        ok(hip.hipEventDestroy(event))
    for stream in first, second:
        ok(hip.hipStreamDestroy(stream))
    ok(hip.hipFree(data))
    affine.unload()


def threads_work_at_the_same_time():
    affine = Affine()
    results = []

    def work(term):
        stream = ok(hip.hipStreamCreate())
        data, host = ok(hip.hipMalloc(COUNT * 4)), words(COUNT)
        ok(hip.hipMemsetAsync(data, 0, COUNT * 4, stream))
        for _ in range(100):
            affine.launch(data, 1, term, stream)
        ok(hip.hipMemcpyAsync(host, data, COUNT * 4, Kind.hipMemcpyDeviceToHost, stream))
        ok(hip.hipStreamSynchronize(stream))
        results.append(host == words(COUNT, 100 * term))
        ok(hip.hipFree(data))
        ok(hip.hipStreamDestroy(stream))

    threads = [threading.Thread(target=work, args=(term,)) for term in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4
    affine.unload()


WEIGHTED = b"""
extern "C" __global__ void weighted(double weight, signed char sign, short term, unsigned count, float *data) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] = sign * weight * data[i] + term;
}
"""


class Program:
    """A source that HIPRTC compiles for the device."""

    def __init__(self, source):
        # Imported here, because other checks do not need the library.
        from hip import hiprtc

        self.hiprtc = hiprtc
        self.program = self.done(hiprtc.hiprtcCreateProgram(source, b"program", 0, [], []))

    def done(self, answer):
        code, *values = answer
        assert code == self.hiprtc.hiprtcResult.HIPRTC_SUCCESS, code
        return values[0] if values else None

    def compile(self):
        """The result; an error usually means an error in the source."""
        properties = hip.hipDeviceProp_t()
        ok(hip.hipGetDeviceProperties(properties, 0))
        flags = [b"--offload-arch=" + properties.gcnArchName]
        (code,) = self.hiprtc.hiprtcCompileProgram(self.program, len(flags), flags)
        return code

    def code(self):
        code = bytearray(self.done(self.hiprtc.hiprtcGetCodeSize(self.program)))
        self.done(self.hiprtc.hiprtcGetCode(self.program, code))
        return code

    def log(self):
        log = bytearray(self.done(self.hiprtc.hiprtcGetProgramLogSize(self.program)))
        self.done(self.hiprtc.hiprtcGetProgramLog(self.program, log))
        return log.decode()

    def destroy(self):
        self.done(self.hiprtc.hiprtcDestroyProgram(self.program.createRef()))


def kernels_are_compiled_at_run_time():
    """The steps of hip-python's examples: compile for the device, load, launch with arguments of every size."""
    program = Program(WEIGHTED)
    assert program.compile() == program.hiprtc.hiprtcResult.HIPRTC_SUCCESS, program.log()
    module = ok(hip.hipModuleLoadData(program.code()))
    function = ok(hip.hipModuleGetFunction(module, b"weighted"))
    host = array.array("f", range(COUNT))
    data = ok(hip.hipMalloc(4 * COUNT))
    ok(hip.hipMemcpy(data, host, 4 * COUNT, Kind.hipMemcpyHostToDevice))
    block = hip.dim3(x=32)
    grid = hip.dim3((COUNT + block.x - 1) // block.x)
    start, stop = (ok(hip.hipEventCreate()) for _ in range(2))
    ok(hip.hipEventRecord(start, None))
    arguments = (ctypes.c_double(0.5), ctypes.c_byte(-1), ctypes.c_short(300), ctypes.c_uint(COUNT), data)
    ok(
        hip.hipModuleLaunchKernel(
            function, *grid, *block, sharedMemBytes=0, stream=None, kernelParams=None, extra=arguments
        )
    )
    ok(hip.hipEventRecord(stop, None))
    ok(hip.hipEventSynchronize(stop))
    assert ok(hip.hipEventElapsedTime(start, stop)) > 0
    ok(hip.hipMemcpy(host, data, 4 * COUNT, Kind.hipMemcpyDeviceToHost))
    assert host == array.array("f", (300 - i / 2 for i in range(COUNT)))
    for event in start, stop:
        ok(hip.hipEventDestroy(event))
    ok(hip.hipFree(data))
    ok(hip.hipModuleUnload(module))
    program.destroy()


def a_source_with_an_error_is_not_compiled():
    program = Program(WEIGHTED.replace(b"sign *", b"sing *"))
    assert program.compile() == program.hiprtc.hiprtcResult.HIPRTC_ERROR_COMPILATION
    assert "sing" in program.log(), program.log()
    program.destroy()


def errors_are_values():
    (code,) = hip.hipSetDevice(1000)
    assert code == Error.hipErrorInvalidDevice, code
    code, _ = hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(Affine().image)), b"no_such_kernel")
    assert code == Error.hipErrorNotFound, code
    assert str(ok(hip.hipGetErrorName(Error.hipErrorNotFound))) == "hipErrorNotFound"


globals()[sys.argv[2]]()
