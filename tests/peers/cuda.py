#!/usr/bin/env python3
"""PyTorch's side of `plimsoll bench --device cuda:0` on a card: the same workloads under the same names, a JSON object a line.

    plimsoll bench --device cuda:0 gpt2-small resnet50 mobilenetv2 vit-s --json
    python3 tests/peers/cuda.py --compile           # torch.compile, as our fused execution, which is the default on a GPU
    plimsoll bench --device cuda:0 gpt2-small resnet50 mobilenetv2 vit-s --execution in-place --json
    python3 tests/peers/cuda.py                     # eager
    python3 tests/peers/cuda.py resnet50-b64-s224 --any-order

Both sides: AdamW (learning rate 0.001, weight decay 0.01, fused here), the batch on the card before the step begins, the
loss read after each step, GPT-2 clipped at norm 1, no dropout. -f32 forbids TF32, -tf32 allows it for products and
convolutions, -bf16 is autocast. Sums have a fixed order unless --any-order is given, which on our side is
`plimsoll bench --any-order` and here lets cuDNN choose by trying.
"""
import argparse, gc, json, statistics, sys, time

WORKLOADS = {
    "gpt2-small-b8-t1024": dict(batch=8, parameters=124_439_808),
    "resnet50-b64-s224": dict(batch=64, parameters=23_528_522),
    "mobilenetv2-b128-s224": dict(batch=128, parameters=2_236_682),
    "vit-s-b128-s224": dict(batch=128, parameters=21_669_514),
}
ARITHMETIC = ("f32", "tf32", "bf16")
CLASSES, VOCABULARY, LENGTH, SIDE = 10, 50_257, 1024, 224


def names():
    return [f"{group}-{kind}" for group in WORKLOADS for kind in ARITHMETIC]


def build(group):
    """The model on the host."""
    import torch, torch.nn as nn, torch.nn.functional as F

    from models import Block
    from speed import Vit, mobilenetv2

    class Gpt2(nn.Module):
        def __init__(self, width=768, depth=12, heads=12):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Parameter(torch.zeros(LENGTH, width))
            self.blocks = nn.Sequential(*[Block(width, heads, is_causal=True, gelu="tanh") for _ in range(depth)])
            self.norm = nn.LayerNorm(width)

        def forward(self, x):
            return F.linear(self.norm(self.blocks(self.tokens(x) + self.places)), self.tokens.weight).flatten(0, 1)

    def norm(i, o, kernel, stride, act):
        layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(o)]
        return layers + ([nn.ReLU(inplace=True)] if act else [])

    class Bottleneck(nn.Module):
        def __init__(self, i, filters, stride):
            super().__init__()
            self.main = nn.Sequential(*norm(i, filters, 1, 1, True), *norm(filters, filters, 3, stride, True),
                                      *norm(filters, 4 * filters, 1, 1, False))
            same = stride == 1 and i == 4 * filters
            self.short = nn.Identity() if same else nn.Sequential(*norm(i, 4 * filters, 1, stride, False))

        def forward(self, x):
            return F.relu(self.main(x) + self.short(x), inplace=True)

    def resnet50():
        layers, channels = [*norm(3, 64, 7, 2, True), nn.MaxPool2d(3, 2, 1)], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                layers.append(Bottleneck(channels, 64 << stage, 2 if stage and i == 0 else 1))
                channels = 256 << stage
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))

    make = {
        "gpt2-small-b8-t1024": Gpt2,
        "resnet50-b64-s224": resnet50,
        "mobilenetv2-b128-s224": lambda: mobilenetv2(1.0, CLASSES, is_large=True),
        "vit-s-b128-s224": lambda: Vit(384, 12, 6, 16, SIDE, CLASSES),
    }
    return make[group]()


def batch(group, size, device):
    import torch
    if group.startswith("gpt2"):
        rows = torch.randint(VOCABULARY, (size, LENGTH + 1), device=device)
        return rows[:, :-1].contiguous(), rows[:, 1:].flatten()
    images = torch.randn(size, 3, SIDE, SIDE, device=device)
    layout = torch.contiguous_format if group.startswith("vit") else torch.channels_last
    return images.contiguous(memory_format=layout), torch.randint(CLASSES, (size,), device=device)


def measure(name, steps, compiles, any_order, device="cuda"):
    import torch, torch.nn as nn, torch.nn.functional as F
    group, kind = name.rsplit("-", 1)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = kind == "tf32"
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = not any_order, any_order
    model = build(group).to(device)
    parameters = sum(p.numel() for p in model.parameters())
    expected = WORKLOADS[group]["parameters"]
    assert parameters == expected, f"{name} has {parameters} parameters here and {expected} there"
    if not group.startswith(("gpt2", "vit")):
        model = model.to(memory_format=torch.channels_last)
    x, y = batch(group, WORKLOADS[group]["batch"], device)
    run = torch.compile(model) if compiles else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    ms = []
    for step in range(steps + 4):
        if step == 4:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=kind == "bf16"):
            loss = F.cross_entropy(run(x), y)
        loss.backward()
        if group.startswith("gpt2"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        ms.append((time.perf_counter() - start) * 1e3)
    steady = ms[4:]
    return dict(name=name, on="cuda:0", device=torch.cuda.get_device_name(0), torch=torch.__version__,
                cuda=torch.version.cuda, date=time.strftime("%Y-%m-%d", time.gmtime()), compiled=compiles,
                deterministic=not any_order, ms=statistics.median(steady), min_ms=min(steady),
                peak_bytes=torch.cuda.max_memory_allocated(), reserved_bytes=torch.cuda.max_memory_reserved(),
                parameters=parameters)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="workloads, or how their names begin; all when none is given")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    given = parser.parse_args()
    chosen = [name for name in names()
              if not given.names or any(name == part or name.startswith(part + "-") for part in given.names)]
    if not chosen:
        parser.error(f"there is no workload {' or '.join(given.names)}; the workloads are {', '.join(names())}")
    if given.list:
        return print("\n".join(chosen))
    try:
        import torch
    except ImportError:
        parser.error("PyTorch is missing: pip install torch")
    if not torch.cuda.is_available():
        parser.error("PyTorch sees no card here")
    for name in chosen:
        try:
            print(json.dumps(measure(name, given.steps, given.compile, given.any_order)), flush=True)
        except Exception as error:  # The others are still worth their time.
            print(f"{name}: {error}", file=sys.stderr, flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
