#!/usr/bin/env python3
"""Step times of PyTorch for five models against `plimsoll bench`'s: median and least ms, and the parameters.

Ours, with the same parameters (medians of the `secs` of the steps):

    plimsoll train mobilenetv2-shapes --set budget=4GiB --set run.steps=16 --set run.evaluate_every=100 --json
    ... --set model.kind=vit --set model.width=192 --set model.depth=6 --set model.heads=3 --set model.hidden=768 --set model.patch=4
    ... --set model.kind=unet --set model.width=16 --set model.depth=3 --set data.kind=masks --set data.classes=4 --set batch.micro=16
    ... --set model.kind=mixer --set model.width=192 --set model.depth=6 --set model.hidden=768 --set model.patch=4
    plimsoll train sort-llama --set budget=4GiB --set run.steps=16 --set run.evaluate_every=100 --set model.width=256
        --set model.depth=6 --set model.heads=8 --set model.kv_heads=8 --set model.hidden=688 --set model.tied=false
        --set data.kind=tokens --set data.length=128 --set data.vocabulary=256 --set batch.micro=16 --json
"""
import statistics, time
import torch, torch.nn as nn, torch.nn.functional as F

from models import Block


def conv_norm(i, o, kernel, stride, groups=1, act=True):
    layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return layers + ([nn.ReLU6()] if act else [])


class Inverted(nn.Module):
    def __init__(self, i, expansion, o, stride):
        super().__init__()
        hidden = i * expansion
        expand = conv_norm(i, hidden, 1, 1) if expansion > 1 else []
        self.main = nn.Sequential(*expand, *conv_norm(hidden, hidden, 3, stride, hidden),
                                  *conv_norm(hidden, o, 1, 1, act=False))
        self.is_residual = stride == 1 and i == o

    def forward(self, x):
        return x + self.main(x) if self.is_residual else self.main(x)


def mobilenetv2(multiplier=0.5, classes=10, is_large=False):
    """For images of 32 x 32, or with strides as published for large ones."""
    def divisible(v):
        rounded = max(8, int(v + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * v else rounded

    channels, stride = divisible(32 * multiplier), 2 if is_large else 1
    layers = conv_norm(3, channels, 3, stride)
    stages = [(1, 16, 1, 1), (6, 24, 2, stride), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, filters, count, first in stages:
        for i in range(count):
            out = divisible(filters * multiplier)
            layers.append(Inverted(channels, expansion, out, first if i == 0 else 1))
            channels = out
    return nn.Sequential(*layers, *conv_norm(channels, 1280, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1280, classes))


class Vit(nn.Module):
    def __init__(self, width=192, depth=6, heads=3, patch=4, side=32, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*[Block(width, heads, is_causal=False) for _ in range(depth)])
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.classes(self.norm(self.blocks(x)[:, 0]))


def twice(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, 1, 1), nn.ReLU(), nn.Conv2d(o, o, 3, 1, 1), nn.ReLU())


class Unet(nn.Module):
    def __init__(self, width=16, depth=3, classes=5):
        super().__init__()
        sizes = [width << level for level in range(depth + 1)]
        self.downs = nn.ModuleList([twice(i, o) for i, o in zip([3, *sizes], sizes)])
        self.ups = nn.ModuleList([nn.ConvTranspose2d(2 * o, o, 2, 2) for o in sizes[:-1]])
        self.joins = nn.ModuleList([twice(2 * o, o) for o in sizes[:-1]])
        self.classes = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level, down in enumerate(self.downs):
            x = down(F.max_pool2d(x, 2) if level else x)
            skips.append(x)
        for up, join, skip in reversed(list(zip(self.ups, self.joins, skips))):
            x = join(torch.cat([up(x), skip], 1))
        return self.classes(x)


class MixerBlock(nn.Module):
    def __init__(self, width, tokens, mixed, hidden):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(tokens, mixed), nn.GELU(), nn.Linear(mixed, tokens))
        self.within = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x):
        x = x + self.across(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, width=192, depth=6, patch=4, side=32, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*[MixerBlock(width, (side // patch) ** 2, width // 2, 4 * width) for _ in range(depth)])
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        return self.classes(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, hidden, length):
        super().__init__()
        self.n1, self.n2, self.heads = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5), heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(length).float(), 1e4 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, 1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, 1))

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        gate, up = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def llama(vocabulary=256, width=256, depth=6, heads=8, hidden=688, length=128):
    blocks = [LlamaBlock(width, heads, hidden, length) for _ in range(depth)]
    return nn.Sequential(nn.Embedding(vocabulary, width), *blocks, nn.RMSNorm(width, 1e-5),
                         nn.Linear(width, vocabulary, bias=False), nn.Flatten(0, 1))


def main():
    torch.set_num_threads(2)
    images = torch.randn(32, 3, 32, 32)
    tokens, following = torch.randint(0, 256, (16, 128)), torch.randint(0, 256, (16 * 128,))
    classes, masks = torch.randint(0, 10, (32,)), torch.randint(0, 5, (16, 32, 32))
    for name, model, x, y in [("mobilenetv2", mobilenetv2(), images, classes), ("vit", Vit(), images, classes),
                              ("unet", Unet(), images[:16], masks), ("mixer", Mixer(), images, classes),
                              ("llama", llama(), tokens, following)]:
        optimizer, ms = torch.optim.AdamW(model.parameters(), lr=1e-3), []
        for _ in range(16):
            start = time.perf_counter()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            ms.append((time.perf_counter() - start) * 1e3)
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{name}: {statistics.median(ms[4:]):.1f} ms, least {min(ms[4:]):.1f}, {parameters} parameters", flush=True)


if __name__ == "__main__":
    main()
