"""Triton's measurement of a kernel (`do_bench`), as its autotuning makes it: the median of 20 measurements, and the largest, in us.

    tuning.py [system]      with `system`, in a domain whose calls are never suspended: by the package `xsched`
"""

import contextlib
import sys

import torch
from trace_kernel import add
from triton.testing import do_bench

SIZE = 1 << 24
x = torch.ones(SIZE, device="cuda")


def measure():
    return do_bench(lambda: add[(SIZE // 1024,)](x, x, SIZE, BLOCK=1024), warmup=5, rep=50, return_mode="max") * 1e3


domain = contextlib.nullcontext()
if "system" in sys.argv:
    import xsched

    domain = xsched.domain("system")
measure()
with domain:
    times = sorted(measure() for _ in range(20))
print(f"slowest run of a kernel in each of {len(times)} measurements: median {times[10]:.1f} us, largest {times[-1]:.1f} us", flush=True)
