#!/usr/bin/env python3
"""Step times of PyTorch in bf16 on a processor beside ours: median and least ms.

    python tests/peers/bf16.py [--program target/release/plimsoll] [--steps 12]

Needs torch and torchvision. A GPT-2 of width 384 (6 blocks, 6 heads, 997 tokens, not tied, 16 sequences of 128) and a ResNet-18 for images
of 32 x 32 (batches of 32), each under autocast and in f32, with AdamW (fused on PyTorch's side). A step is forward, backward,
update and loss. The sides take turns, three times. Of PyTorch's ResNet the faster of both memory formats counts.
"""
import argparse, json, statistics, subprocess, time

import torch, torch.nn as nn, torch.nn.functional as F, torchvision

from models import Block

WIDTH, BLOCKS, HEADS, LENGTH, TOKENS, SEQUENCES, IMAGES = 384, 6, 6, 128, 997, 16, 32
GPT = f"""brackets-gpt --set model.width={WIDTH} --set model.depth={BLOCKS} --set model.heads={HEADS} --set model.tied=false
    --set data.kind=tokens --set data.length={LENGTH} --set data.vocabulary={TOKENS} --set batch.micro={SEQUENCES}"""
RESNET = f"resnet18-shapes --set batch.micro={IMAGES} --set recompute=cheap"


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block(WIDTH, HEADS, is_causal=True) for _ in range(BLOCKS)])
        self.norm, self.classes = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, x):
        return self.classes(self.norm(self.blocks(self.tokens(x) + self.places.weight))).flatten(0, 1)


def gpt():
    x = torch.randint(0, TOKENS, (SEQUENCES, LENGTH))
    return Gpt(), x, x.roll(-1, 1).flatten()


def resnet(layout):
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    x = torch.randn(IMAGES, 3, 32, 32).to(memory_format=layout)
    return model.to(memory_format=layout), x, torch.randint(0, 10, (IMAGES,))


def theirs(make, is_narrow, steps):
    torch.manual_seed(0)
    model, x, y = make()
    optimizer, secs = torch.optim.AdamW(model.parameters(), 1e-3, fused=True), []
    for _ in range(steps):
        begun = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=is_narrow):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        secs.append(time.perf_counter() - begun)
    return secs[2:]


def ours(program, preset, is_narrow, steps):
    precision = "bf16-mixed" if is_narrow else "f32"
    command = [program, "train", *preset.split(), "--set", f"precision={precision}", "--set", f"run.steps={steps}", "--set",
               "run.evaluate_every=1000", "--budget", "4GiB", "--json"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [event["secs"] for event in map(json.loads, lines) if event["event"] == "step"][2:]


def words(secs):
    return f"{1e3 * statistics.median(secs):7.1f} ({1e3 * min(secs):.1f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="target/release/plimsoll")
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    formats = [torch.contiguous_format, torch.channels_last]
    cases = [("GPT-2", GPT, [gpt]), ("ResNet-18", RESNET, [lambda l=l: resnet(l) for l in formats])]
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; median (least) ms of a step")
    for name, preset, made in cases:
        for is_narrow in (True, False):
            for _ in range(3):
                own = ours(args.program, preset, is_narrow, args.steps)
                other = min((theirs(make, is_narrow, args.steps) for make in made), key=statistics.median)
                ratio = statistics.median(own) / statistics.median(other)
                kind = "bf16" if is_narrow else "f32"
                print(f"{name:9} {kind:5} ours {words(own):18} PyTorch {words(other):18} {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
