"""A training on all devices at once, a process each, whose gradients NCCL adds up: 100 steps with deterministic settings.

    devices.py    prints the checksum of all losses and the steps a second
"""

import hashlib
import os
import time

import torch
import torch.distributed
import torch.multiprocessing


def train(rank, world, results):
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 1024)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    torch.manual_seed(rank)
    for step in range(110):
        if step == 10:
            torch.cuda.synchronize()
            begun = time.perf_counter()
        x = torch.randn(4096, 1024, device="cuda")
        loss = (model(x) - x.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    results.put((rank, "".join(losses), 100 / (time.perf_counter() - begun)))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", CUBLAS_WORKSPACE_CONFIG=":4096:8")
    world = torch.cuda.device_count()
    results = torch.multiprocessing.get_context("spawn").SimpleQueue()
    context = torch.multiprocessing.spawn(train, (world, results), nprocs=world, join=False)
    lines = sorted(results.get() for _ in range(world))
    context.join()
    checksum = hashlib.sha256("".join(losses for _, losses, _ in lines).encode()).hexdigest()[:16]
    print(f"devices: {world}, checksum {checksum}, {min(rate for _, _, rate in lines):.1f} steps/s")
