"""One PyTorch workload; the models have random weights.

    worker.py WORKLOAD SECONDS TAG FOLDER [prio|stream] [again] [even|odd]

Writes FOLDER/ready.TAG, waits for FOLDER/go, and prints a JSON line. With `even` or `odd` it works in such seconds only, so two
processes can be compared second by second. It works on the null stream, with `stream` on another, with `prio` on an urgent one.

    bert      BERT base, batch 1, again and again
    r18       ResNet-18, batch 1, 20 times a second; with `again` as often as it can
    r50       ResNet-50, batch 1024, again and again
    same      r18 and r50 in two threads of this process; with `prio`, by the priorities of their streams
    decode    a small transformer's decode loop in a CUDA graph
    empty     launches of an empty kernel, in us each
    idle      one empty kernel every 100 ms
    train     200 steps of a training with deterministic settings; prints a checksum of its losses
    server    a decode server: a transformer with a KV cache, batch 8, in a CUDA graph; 5 requests of 24 tokens a second; times of tokens
    eager     the same without a graph
    trainer   a transformer's training (forward, backward, AdamW), again and again; with `compile` by torch.compile
"""

import json
import os
import sys
import threading
import time

import torch

workload, seconds, tag, folder = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4]
options = set(sys.argv[5:])
torch.set_num_threads(1)
torch.manual_seed(0)


def statistics(times):
    ms = sorted(time * 1e3 for time in times)
    at = lambda part: round(ms[min(len(ms) - 1, int(part * len(ms)))], 3)
    return dict(n=len(ms), mean=round(sum(ms) / len(ms), 3), p50=at(0.5), p90=at(0.9), p99=at(0.99), max=round(ms[-1], 3))


def bert():
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).eval().cuda()
    words = torch.randint(0, 30000, (1, 12), device="cuda")
    return lambda: model(words)


def resnet(name, batch):
    import torchvision

    model = getattr(torchvision.models, name)(weights=None).eval().cuda()
    images = torch.randn(batch, 3, 224, 224, device="cuda")
    return lambda: model(images)


def replay(act):
    """What launches `act` as a graph."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    return graph.replay


def decode():
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8).eval().half().cuda()
    token = torch.randn(1, 1, 1024, device="cuda", dtype=torch.half)
    for _ in range(3):
        model(token)
    return replay(lambda: model(token))


class Decoder(torch.nn.Module):
    """One token for each of a batch, with a cache of keys and values. All its memory is fixed, so that a graph can hold it."""

    def __init__(self, layers=12, width=1024, heads=16, batch=8, length=1024):
        super().__init__()
        self.heads, self.length = heads, length
        self.attention = torch.nn.ModuleList(torch.nn.Linear(width, 3 * width) for _ in range(layers))
        self.after = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2 * layers))
        self.wide = torch.nn.ModuleList(torch.nn.Linear(width, 4 * width) for _ in range(layers))
        self.narrow = torch.nn.ModuleList(torch.nn.Linear(4 * width, width) for _ in range(layers))
        self.register_buffer("cache", torch.zeros(layers, 2, batch, heads, length, width // heads))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
        self.register_buffer("places", torch.arange(length))

    def forward(self, token):
        batch, width = token.shape
        seen = (self.places <= self.at).view(1, 1, 1, -1)
        for layer, (attention, after, wide, narrow) in enumerate(zip(self.attention, self.after, self.wide, self.narrow)):
            parts = attention(self.norms[2 * layer](token)).view(batch, 3, self.heads, 1, width // self.heads)
            query, key, value = parts.unbind(1)
            for cached, new in zip(self.cache[layer], (key, value)):
                cached.index_copy_(2, self.at, new)
            keys, values = self.cache[layer]
            heard = torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
            token = token + after(heard.reshape(batch, width))
            token = token + narrow(torch.nn.functional.gelu(wide(self.norms[2 * layer + 1](token))))
        self.at.add_(1).remainder_(self.length)
        return token


def server():
    model = Decoder().eval().half().cuda()
    model.at, model.places = model.at.long(), model.places.long()
    token = torch.randn(8, 1024, device="cuda", dtype=torch.half)
    if workload == "eager":
        return lambda: model(token)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(token)
    return replay(lambda: model(token))


def trainer():
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(32, 256, 768, device="cuda")
    forward = torch.compile(model) if "compile" in options else model

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = (forward(data) - data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def empty():
    x = torch.zeros(1, device="cuda")

    def thousand():
        for _ in range(1000):
            x.add_(0)

    return thousand


def begin():
    torch.cuda.synchronize()
    open(f"{folder}/ready.{tag}", "w").close()
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.002)


def again_and_again(act, stream):
    times, end = [], time.perf_counter() + seconds
    slot = 0 if "even" in options else 1 if "odd" in options else None
    while True:
        begun = time.perf_counter()
        if begun >= end:
            return times
        # Not in the last moment of a second either.
        if slot is not None and (int(time.time()) % 2 != slot or time.time() % 1 > 0.97):
            time.sleep(0.0005)
            continue
        act()
        stream.synchronize()
        times.append(time.perf_counter() - begun)


def periodically(act, stream, hz, burst=1):
    """The times of single acts, of which `burst` follow each other."""
    times, start, count = [], time.perf_counter(), 0
    while start + count / hz < start + seconds:
        left = start + count / hz - time.perf_counter()
        if left > 0:
            time.sleep(left)
        for _ in range(burst):
            begun = time.perf_counter()
            act()
            stream.synchronize()
            times.append(time.perf_counter() - begun)
        count += 1
    return times


def one():
    own = {"prio", "stream"} & options
    stream = torch.cuda.Stream(priority=-5 if "prio" in options else 0) if own else torch.cuda.current_stream()
    data = torch.zeros(1, device="cuda")
    workloads = {
        "bert": bert,
        "decode": decode,
        "eager": server,
        "empty": empty,
        "idle": lambda: lambda: data.add_(0),
        "r18": lambda: resnet("resnet18", 1),
        "r50": lambda: resnet("resnet50", 1024),
        "server": server,
        "trainer": trainer,
    }
    with torch.inference_mode(workload != "trainer"), torch.cuda.stream(stream):
        act = workloads[workload]()
        for _ in range(4 if workload == "r50" else 20):
            act()
        begin()
        start = time.perf_counter()
        if workload in ("server", "eager"):
            times = periodically(act, stream, 5, burst=24)
        else:
            hz = None if "again" in options else {"r18": 20, "idle": 10}.get(workload)
            times = periodically(act, stream, hz) if hz else again_and_again(act, stream)
        took = time.perf_counter() - start
        return dict(statistics(times), per_second=round(len(times) / took * (1024 if workload == "r50" else 1), 1))


def same():
    low, high = torch.cuda.Stream(), torch.cuda.Stream(priority=-5 if "prio" in options else 0)
    with torch.inference_mode():
        r50, r18 = resnet("resnet50", 1024), resnet("resnet18", 1)
        torch.cuda.synchronize()
        with torch.cuda.stream(low):
            for _ in range(4):
                r50()
        with torch.cuda.stream(high):
            for _ in range(20):
                r18()
    stop, count = threading.Event(), [0]

    def background():
        with torch.inference_mode(), torch.cuda.stream(low):
            while not stop.is_set():
                r50()
                low.synchronize()
                count[0] += 1

    begin()
    thread = threading.Thread(target=background)
    thread.start()
    time.sleep(1)
    before, start = count[0], time.perf_counter()
    with torch.inference_mode(), torch.cuda.stream(high):
        times = periodically(r18, high, 20)
    took, done = time.perf_counter() - start, count[0] - before
    stop.set()
    thread.join()
    return dict(statistics(times), r50_per_second=round(1024 * done / took, 1))


def train():
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    begin()
    for _ in range(200):
        x = torch.randn(256, 512, device="cuda")
        loss = (model(x) - x.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    import hashlib

    return dict(steps=len(losses), last=losses[-1], checksum=hashlib.sha256("".join(losses).encode()).hexdigest()[:16])


result = {"same": same, "train": train}.get(workload, one)()
print(json.dumps(dict(tag=tag, workload=workload, options=sorted(options), **result)), flush=True)
