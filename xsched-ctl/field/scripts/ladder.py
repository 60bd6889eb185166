"""PyTorch, one call after the other. The kit names the first that fails.

    ladder.py
"""


def ladder():
    torch = torch_or_end()
    nn = torch.nn
    state = {}

    def tensor():
        assert torch.ones(4, device="cuda").cpu().sum().item() == 4

    def randn():
        x = torch.randn(1 << 20, device="cuda")
        assert abs(x.mean().item()) < 0.05

    def matmul():
        a = torch.ones(512, 512, device="cuda")
        assert (a @ a)[3, 5].item() == 512

    def convolution():
        x, w = torch.ones(8, 64, 56, 56, device="cuda"), torch.ones(64, 64, 3, 3, device="cuda")
        y = nn.functional.conv2d(x, w)
        assert abs(y[0, 0, 3, 3].item() - 576) < 1

    def small_model():
        model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 16)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            loss = model(torch.randn(64, 256, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss.isfinite().item()

    def resnet18():
        model, state["resnet"] = resnet(torch, 18)
        with torch.inference_mode():
            y = model.eval().cuda()(torch.randn(4, 3, 224, 224, device="cuda"))
        assert y.shape == (4, 1000) and y.isfinite().all().item()

    rungs = [
        ("tensor on the device and back", tensor),
        ("randn on the device", randn),
        ("matmul", matmul),
        ("convolution", convolution),
        ("small model, three steps of training", small_model),
        ("ResNet-18, batch 4", resnet18),
    ]
    begin()
    failed = None
    for name, rung in rungs:
        say({"trying": name})
        begun = time.perf_counter()
        try:
            rung()
            torch.cuda.synchronize()
        except Exception as error:
            import traceback

            last = traceback.extract_tb(error.__traceback__)[-1]
            failed = f"{type(error).__name__}: {str(error).strip()[:500]} (in {last.name})"
            say({"done": {"name": name, "error": failed}})
            # A device that has failed once fails from then on.
            break
        say({"done": {"name": name, "ms": (time.perf_counter() - begun) * 1e3}})
    facts = [["PyTorch", torch.__version__], ["ResNet from", state.get("resnet", "nothing")]]
    end(facts=facts)


ladder()
