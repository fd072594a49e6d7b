#!/usr/bin/env python3
"""Accuracy of PyTorch for two recipes that Plimsoll trains as well, over three seeds: one JSON line a run.

resnet18-digits: ResNet-18 with the small stem on the digits that ship, batch 64, AdamW 0.001, cosine, 110 steps.
gpt-sort: a GPT of width 64, 2 blocks, 4 heads, sorts 8 of 16 digits, batch 64, AdamW 0.001, cosine, 600 steps.

Ours, with S from 1 to 3:

    plimsoll train cnn-digits --set model.kind=resnet --set model.layers=18 --set model.stem=small --set budget=1GiB
        --set optimizer.learning_rate=0.001 --set run.steps=110 --set run.seed=S
    plimsoll train mlp-digits --set model.kind=gpt2 --set model.width=64 --set model.depth=2 --set model.heads=4
        --set model.hidden=256 --set data.kind=sort --set data.length=8 --set data.vocabulary=16 --set data.samples=4000
        --set optimizer.learning_rate=0.001 --set optimizer.schedule=cosine --set budget=1GiB --set run.steps=600
        --set run.seed=S
"""
import csv, gzip, json, math, pathlib
import torch, torch.nn as nn, torch.nn.functional as F

from models import Block

DIGITS = pathlib.Path(__file__).parents[2] / "assets/data/digits.csv.gz"


class Basic(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                               nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.short = nn.Identity() if stride == 1 and i == o else nn.Sequential(
            nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.a(x) + self.short(x))


def resnet18(channels, classes):
    layers, i = [nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for o, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        layers += [Basic(i, o, stride), Basic(o, o, 1)]
        i = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, width, depth, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, is_causal=True, gelu="tanh") for _ in range(depth)])
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * depth) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, x):
        return self.classes(self.norm(self.blocks(self.tokens(x) + self.places)))


def train(model, batch, steps, rate=1e-3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    model.train()
    for _ in range(steps):
        x, y = batch()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten(), ignore_index=-1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()


def digits(seed):
    torch.manual_seed(seed)
    rows = torch.tensor([[int(v) for v in row] for row in csv.reader(gzip.open(DIGITS, "rt"))])
    rows = rows[torch.randperm(len(rows))]
    x, y = rows[:, :64].float().view(-1, 1, 8, 8), rows[:, 64]
    test = round(len(rows) * 0.2)
    x = (x - x[test:].mean()) / x[test:].std()
    model, order = resnet18(1, 10), iter(())

    def batch():
        nonlocal order
        at = next(order, None)
        if at is None or len(at) < 64:
            order = iter((torch.randperm(len(x) - test) + test).split(64))
            at = next(order)
        return x[at], y[at]

    train(model, batch, 110)
    with torch.no_grad():
        return (model(x[:test]).argmax(1) == y[:test]).float().mean().item()


def sort(seed):
    torch.manual_seed(seed)

    def rows(n):
        x = torch.randint(0, 16, (n, 8))
        row = torch.cat([x, x.sort(1).values], 1)
        y = row[:, 1:].clone()
        y[:, :7] = -1
        return row[:, :-1], y

    model = Gpt(16, 15, 64, 2, 4)
    x, y = rows(3200)

    def batch():
        at = torch.randint(0, len(x), (64,))
        return x[at], y[at]

    train(model, batch, 600)
    x, y = rows(800)
    with torch.no_grad():
        right = model(x).argmax(2) == y
    return right[y >= 0].float().mean().item()


if __name__ == "__main__":
    torch.set_num_threads(2)
    for name, recipe in [("resnet18-digits", digits), ("gpt-sort", sort)]:
        for seed in (1, 2, 3):
            print(json.dumps(dict(name=name, seed=seed, test_accuracy=round(recipe(seed), 4))), flush=True)
