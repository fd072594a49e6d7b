#!/usr/bin/env python3
"""PyTorch's pruning beside ours: the accuracy of the preset `cnn-digits-pruned`, over three seeds, one JSON line a run.

Needs torch. The CNN of the preset on the digits that ship, 1,320 steps of 64, AdamW 0.002, cosine; from update 200 on the least
weights of each layer become zero, every 10 updates, by the cubic schedule of Zhu & Gupta (2017), until 80% are at update 990.
PyTorch does it by the masks of `torch.nn.utils.prune`, which are of the weights' type.

Ours, with S from 1 to 3, and dense with `--set prune.kind=none`:

    plimsoll train cnn-digits-pruned --json --quiet --set run.seed=S
"""
import csv, gzip, json, pathlib
import torch, torch.nn as nn, torch.nn.functional as F
import torch.nn.utils.prune as prune

DIGITS = pathlib.Path(__file__).parents[2] / "assets/data/digits.csv.gz"
STEPS, BATCH, RATE = 1320, 64, 2e-3
SPARSITY, BEGIN, EVERY = 0.8, 200, 10
END = STEPS - STEPS // 4


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))


def sparsity_at(step):
    if not BEGIN <= step <= END or ((step - BEGIN) % EVERY and step != END):
        return None
    return SPARSITY * (1 - (1 - (step - BEGIN) / (END - BEGIN)) ** 3)


def run(seed, is_pruned):
    torch.manual_seed(seed)
    rows = torch.tensor([[int(v) for v in row] for row in csv.reader(gzip.open(DIGITS, "rt"))])
    rows = rows[torch.randperm(len(rows))]
    x, y = rows[:, :64].float().view(-1, 1, 8, 8), rows[:, 64]
    test = round(len(rows) * 0.2)
    x = (x - x[test:].mean()) / x[test:].std()
    model = cnn()
    layers = [layer for layer in model if isinstance(layer, (nn.Conv2d, nn.Linear))]
    if is_pruned:
        # Before the optimizer is made: pruning moves the weight to another parameter, once.
        for layer in layers:
            prune.identity(layer, "weight")
    # Weight decay, as ours, on all parameters.
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    order = iter(())
    for step in range(1, STEPS + 1):
        at = next(order, None)
        if at is None or len(at) < BATCH:
            order = iter((torch.randperm(len(x) - test) + test).split(BATCH))
            at = next(order)
        loss = F.cross_entropy(model(x[at]), y[at])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        sparsity = sparsity_at(step) if is_pruned else None
        if sparsity:
            for layer in layers:
                with torch.no_grad():
                    magnitude = layer.weight_orig.abs() * layer.weight_mask if step > BEGIN else layer.weight_orig.abs()
                    least = magnitude.flatten().topk(round(sparsity * magnitude.numel()), largest=False).indices
                    mask = torch.ones_like(magnitude).flatten()
                    mask[least] = 0
                    layer.weight_mask.copy_(mask.view_as(magnitude))
    with torch.no_grad():
        accuracy = (model(x[:test]).argmax(1) == y[:test]).float().mean().item()
    weights = [layer.weight for layer in layers]
    zeros = sum((weight == 0).sum().item() for weight in weights) / sum(weight.numel() for weight in weights)
    return dict(name="cnn-digits-pruned" if is_pruned else "cnn-digits", seed=seed, test_accuracy=round(accuracy, 4),
                sparsity=round(zeros, 4))


if __name__ == "__main__":
    torch.set_num_threads(2)
    for is_pruned in (False, True):
        for seed in (1, 2, 3):
            print(json.dumps(run(seed, is_pruned)), flush=True)
