"""Matrix products by cuBLAS, each with a wait, for some seconds: prints how many a second."""

import sys
import time

import torch

a = torch.randn(2048, 2048, device="cuda")
for _ in range(3):
    a @ a
torch.cuda.synchronize()
end, count = time.perf_counter() + float(sys.argv[1]), 0
while time.perf_counter() < end:
    a @ a
    torch.cuda.synchronize()
    count += 1
print(f"products: {count / float(sys.argv[1]):.1f} a second", flush=True)
