"""A small run of one kind under CUPTI, from its first call to its last; prints what CUPTI counted as a line of JSON.

    trace_workload.py eager|half|compile|graph|triton|cupy|jax

`trace.sh` runs it under `xsched-ctl trace` as well, so both count the same calls.
"""

import json
import os
import sys
from collections import Counter

mode = sys.argv[1]
ROUNDS = 10


def resnet(dtype):
    import torchvision

    model = torchvision.models.resnet18(weights=None).eval().cuda().to(dtype)
    image = torch.randn(4, 3, 224, 224, device="cuda", dtype=dtype)
    return lambda: model(image)


def run_eager(dtype):
    step = resnet(dtype)
    for _ in range(ROUNDS):
        step()


def run_compile():
    step = torch.compile(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512)).cuda())
    for _ in range(ROUNDS):
        step(torch.ones(64, 512, device="cuda"))


def run_graph():
    step = resnet(torch.float32)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(ROUNDS):
        graph.replay()


def run_triton():
    from trace_kernel import add

    x = torch.ones(1 << 16, device="cuda")
    for _ in range(ROUNDS):
        add[(64,)](x, x, 1 << 16, BLOCK=1024)


def run_cupy():
    import cupy

    a = cupy.ones(1000)
    for _ in range(ROUNDS):
        a = a + a
    cupy.cuda.Device().synchronize()


def run_jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda a: jnp.tanh(a @ a) + 1)
    a = jnp.ones((512, 512))
    for _ in range(ROUNDS):
        step(a).block_until_ready()


import torch
from torch.profiler import ProfilerActivity, profile

torch.set_grad_enabled(False)
RUNS = {
    "eager": lambda: run_eager(torch.float32),
    "half": lambda: run_eager(torch.float16),
    "compile": run_compile,
    "graph": run_graph,
    "triton": run_triton,
    "cupy": run_cupy,
    "jax": run_jax,
}
if os.environ.get("CALLERS"):
    # Without CUPTI: its own frames are no part of a program.
    RUNS[mode]()
    torch.cuda.synchronize()
    os._exit(0)
with profile(activities=[ProfilerActivity.CUDA]) as profiled:
    RUNS[mode]()
    torch.cuda.synchronize()

calls, done = Counter(), Counter()
for event in profiled.profiler.kineto_results.events():
    name = event.name()
    if str(event.device_type()).endswith("CUDA"):
        kind = next((kind for kind in ("Memcpy", "Memset") if name.startswith(kind)), "kernel")
        if kind != "kernel" or (event.duration_ns() > 0 and not name.startswith(("Context", "Stream", "Event"))):
            done[kind] += 1
    elif name.startswith("cu") and "Launch" in name and "HostFunc" not in name:
        calls[name] += 1
print(json.dumps({"mode": mode, "launches": sum(calls.values()), "calls": calls, "done": done}), flush=True)
os._exit(0)
