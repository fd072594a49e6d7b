#!/usr/bin/env python3
"""PyTorch's pruning against ours: the accuracy of the preset `cnn-digits-pruned`, over three seeds, one JSON line a run.

Needs torch. The CNN of the preset on the digits that ship, 1,320 steps of 64, AdamW 0.002, cosine; from update 200 on the least
weights of each layer become zero, every 10 updates, by the cubic schedule of Zhu & Gupta (2017), until 80% are at update 990.
PyTorch does it by the masks of `torch.nn.utils.prune`, which are of the weights' type.

Ours, with S from 1 to 3, and dense with `--set prune.kind=none`:

    plimsoll train cnn-digits-pruned --json --quiet --set run.seed=S
"""
import json
import torch, torch.nn as nn
import torch.nn.utils.prune as prune

from digits import STEPS, Digits, layers, train

SPARSITY, BEGIN, EVERY = 0.8, 200, 10
END = STEPS - STEPS // 4


def sparsity_at(step):
    if not BEGIN <= step <= END or ((step - BEGIN) % EVERY and step != END):
        return None
    return SPARSITY * (1 - (1 - (step - BEGIN) / (END - BEGIN)) ** 3)


def run(seed, is_pruned):
    torch.manual_seed(seed)
    digits = Digits()
    model = nn.Sequential(*layers())
    weighted = [layer for layer in model if isinstance(layer, (nn.Conv2d, nn.Linear))]
    if is_pruned:
        # Before the optimizer is made: pruning moves the weight to another parameter, once.
        for layer in weighted:
            prune.identity(layer, "weight")

    def set_masks(step):
        sparsity = sparsity_at(step) if is_pruned else None
        if sparsity:
            for layer in weighted:
                with torch.no_grad():
                    magnitude = layer.weight_orig.abs() * layer.weight_mask if step > BEGIN else layer.weight_orig.abs()
                    least = magnitude.flatten().topk(round(sparsity * magnitude.numel()), largest=False).indices
                    mask = torch.ones_like(magnitude).flatten()
                    mask[least] = 0
                    layer.weight_mask.copy_(mask.view_as(magnitude))

    train(model, digits, set_masks)
    accuracy = digits.accuracy(model)
    weights = [layer.weight for layer in weighted]
    zeros = sum((weight == 0).sum().item() for weight in weights) / sum(weight.numel() for weight in weights)
    return dict(name="cnn-digits-pruned" if is_pruned else "cnn-digits", seed=seed, test_accuracy=accuracy,
                sparsity=round(zeros, 4))


if __name__ == "__main__":
    torch.set_num_threads(2)
    for is_pruned in (False, True):
        for seed in (1, 2, 3):
            print(json.dumps(run(seed, is_pruned)), flush=True)
