"""Launches for a minute, as a process that a tracer attaches to."""

import time

import torch
import torchvision

torch.set_grad_enabled(False)
model = torchvision.models.resnet18(weights=None).eval().cuda()
image = torch.randn(4, 3, 224, 224, device="cuda")
end = time.monotonic() + 60
while time.monotonic() < end:
    model(image)
    torch.cuda.synchronize()
