"""What every script of the field kit begins with: words to the kit, and models with random weights."""

import json
import os
import sys
import time


def say(word):
    sys.stdout.write("@field " + json.dumps(word) + "\n")
    sys.stdout.flush()


def begin():
    """Ready; returns when the kit lets all participants begin."""
    say("ready")
    if not sys.stdin.readline():
        os._exit(1)


def end(**outcome):
    say({"result": outcome})
    sys.stderr.flush()
    # Without destructors: a library that crashes there would hide the result.
    os._exit(0)


def absent(what):
    end(absent=what)


def torch_or_end():
    say({"trying": "import torch"})
    try:
        import torch
    except ImportError as error:
        absent(f"no PyTorch: {error}")
    say({"trying": "torch.cuda.is_available()"})
    if not torch.cuda.is_available():
        absent("PyTorch finds no GPU (torch.cuda.is_available() is False)")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch


def resnet(torch, depth):
    """ResNet-18 or ResNet-50, and where its code is from."""
    try:
        import torchvision

        return getattr(torchvision.models, f"resnet{depth}")(weights=None), "torchvision"
    except Exception:
        return own_resnet(torch.nn, depth), "the kit's own code"


def own_resnet(nn, depth):
    expansion, counts = (1, (2, 2, 2, 2)) if depth == 18 else (4, (3, 4, 6, 3))

    def convolution(inputs, outputs, size, stride=1):
        return [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)]

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = width * expansion
            if expansion == 1:
                layers = [*convolution(inputs, width, 3, stride), nn.ReLU(), *convolution(width, outputs, 3)]
            else:
                layers = [*convolution(inputs, width, 1), nn.ReLU(), *convolution(width, width, 3, stride), nn.ReLU()]
                layers += convolution(width, outputs, 1)
            self.way = nn.Sequential(*layers)
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(self.way(x) + self.shortcut(x))

    layers, inputs = [*convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate(counts):
        for index in range(count):
            layers.append(Block(inputs, 64 << stage, 2 if stage and not index else 1))
            inputs = (64 << stage) * expansion
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def bert(torch):
    """BERT base on twelve words, and where its code is from."""
    try:
        from transformers import BertConfig, BertModel

        model, origin = BertModel(BertConfig()), "transformers"
    except Exception:
        nn = torch.nn
        layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        model = nn.Sequential(nn.Embedding(30522, 768), nn.TransformerEncoder(layer, 12))
        origin = "the kit's own code"
    return model, origin
