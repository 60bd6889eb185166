"""Host time of a small PyTorch operation, in nanoseconds: alone, and while `torch.profiler` records with CUPTI."""

import time

import torch
from torch.profiler import ProfilerActivity, profile

BATCHES, LAUNCHES = 40, 500
x = torch.ones(1, device="cuda")


def median():
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            x.add_(1)
        times.append((time.perf_counter_ns() - begin) / LAUNCHES)
        torch.cuda.synchronize()
    return sorted(times)[BATCHES // 2]


median()
alone = median()
with profile(activities=[ProfilerActivity.CUDA]):
    recorded = median()
print(f"{alone:.0f} {recorded:.0f}", flush=True)
