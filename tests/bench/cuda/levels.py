"""Programs with real PyTorch for contexts.sh: three levels in three processes, or on three streams of one.

    levels.py process LEVEL START COUNT     at the time START (of time.time), so many matrix products at this level
    levels.py streams COUNT                 three threads, a stream each, with levels of their own
    levels.py waits SECONDS                 uses the device now and then, for `doctor --pid`
    levels.py launches                      kernels of aten, nvrtc (jiterator), Triton and a graph; how many CUPTI counts
"""

import sys
import threading
import time

import torch
import xsched

LEVELS = ["low", "normal", "high"]


def work(a, count, stream=None):
    """Products one behind the other. The number is of milliseconds of a device, about."""
    with torch.cuda.stream(stream or torch.cuda.current_stream()):
        for _ in range(count):
            a = (a @ a).clamp_(-1, 1)
        torch.cuda.current_stream().synchronize()
    return a


def matrix():
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    work(a, 20)
    torch.cuda.synchronize()
    return a


def process(level, start, count):
    a = matrix()
    with xsched.priority(level):
        time.sleep(max(0.0, start - time.time()))
        begun = time.time()
        late = begun - start
        work(a, count)
        print(f"process {level} late {late:.2f} seconds {time.time() - start:.3f}", flush=True)
    print(f"status {level} {xsched.status()}", file=sys.stderr)


def streams(count):
    ready, times, refused = threading.Barrier(len(LEVELS)), {}, {}

    def run(level):
        stream = torch.cuda.Stream()
        a = matrix()
        ready.wait()
        begun = time.perf_counter()
        try:
            with xsched.priority(level, stream=stream):
                work(a, count, stream)
        except xsched.XschedError as error:
            refused[level] = error
            work(a, count, stream)
        times[level] = time.perf_counter() - begun

    threads = [threading.Thread(target=run, args=(level,)) for level in LEVELS]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for level in LEVELS:
        print(f"stream {level} late 0 seconds {times[level]:.3f}", flush=True)
        if level in refused:
            print(f"refused {level}: {refused[level]}", flush=True)


def waits(seconds):
    a = matrix()
    print("ready", flush=True)
    end = time.time() + seconds
    while time.time() < end:
        work(a, 50)


def launches():
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(1 << 20, device="cuda")
    jitted, compiled = None, None
    try:
        jitted = torch.cuda.jiterator._create_jit_fn("template <typename T> T seen_by_nvrtc(T x) { return x * x + T(1); }")
        jitted(x)
    except Exception as error:  # noqa: BLE001
        print(f"without nvrtc: {error}", flush=True)
        jitted = None
    try:
        compiled = torch.compile(lambda x: (x * 2 + 1).relu() * x)
        compiled(x)
    except Exception as error:  # noqa: BLE001
        print(f"without triton: {error}", flush=True)
        compiled = None
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x * 3 + 1  # noqa: F841
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as counted:
        for _ in range(100):
            x + 1
            if jitted is not None:
                jitted(x)
            if compiled is not None:
                compiled(x)
        for _ in range(10):
            graph.replay()
        torch.cuda.synchronize()
    names = ("cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch")
    for event in counted.key_averages():
        if event.key in names:
            print(f"cupti {event.key} {event.count}", flush=True)


if __name__ == "__main__":
    {
        "process": lambda: process(sys.argv[2], float(sys.argv[3]), int(sys.argv[4])),
        "streams": lambda: streams(int(sys.argv[2])),
        "waits": lambda: waits(float(sys.argv[2])),
        "launches": launches,
    }[sys.argv[1]]()
