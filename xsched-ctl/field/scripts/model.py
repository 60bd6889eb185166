"""One model, again and again or at a rate.

    model.py bert|r18|r50 SECONDS BATCH

BERT base at batch 1, ResNet-18 at batch 1 and 20 requests a second, ResNet-50 at BATCH.
"""


def work(name, seconds, batch):
    torch = torch_or_end()
    say({"trying": "building the model"})
    with torch.inference_mode():
        if name == "bert":
            model, origin = bert(torch)
            given = torch.randint(0, 30000, (1, 12), device="cuda")
        else:
            model, origin = resnet(torch, 18 if name == "r18" else 50)
            given = None
        model = model.eval().cuda()
        say({"trying": "the first call"})
        while given is None or name == "r50":
            try:
                given = torch.randn(batch if name == "r50" else 1, 3, 224, 224, device="cuda")
                model(given)
                torch.cuda.synchronize()
                break
            except torch.cuda.OutOfMemoryError:
                given = None
                torch.cuda.empty_cache()
                batch //= 2
                if not batch:
                    raise
        for _ in range(3 if name == "r50" else 10):
            model(given)
        torch.cuda.synchronize()
        begin()
        times, start = [], time.perf_counter()
        while len(times) < 15000:
            due = len(times) / 20 if name == "r18" else 0
            if max(due, time.perf_counter() - start) >= seconds:
                break
            left = start + due - time.perf_counter()
            if left > 0:
                time.sleep(left)
            begun = time.perf_counter()
            model(given)
            torch.cuda.synchronize()
            times.append(round((time.perf_counter() - begun) * 1e3, 3))
        took = time.perf_counter() - start
    images = batch if name == "r50" else 1
    end(
        series=[dict(name="request", samples=times)],
        values=[["per second", len(times) * images / took], ["batch", images]],
        facts=[["model from", origin]],
    )


work(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
