#!/usr/bin/env python3
"""PyTorch's 8-bit integers against ours: the accuracy of the preset `cnn-digits-int8`, over three seeds, one JSON line a run.

Needs torch with torch.ao.quantization. The CNN of the preset on the digits that ship, 1,320 steps of 64, AdamW 0.002, cosine.
"after" finds ranges by the least and the largest number in eight batches, as ours does; "aware" trains with rounded numbers and
ranges that move by a hundredth. Weights have a scale a filter.

Ours, with S from 1 to 3 and K after or aware; "trained_test_accuracy" is that of the model as it was trained:

    plimsoll train cnn-digits-int8 --json --quiet --set run.seed=S --set quantise.kind=K
"""
import json, warnings
import torch, torch.nn as nn
import torch.ao.quantization as quantization

from digits import BATCH, Digits, layers, train

warnings.filterwarnings("ignore")
CALIBRATION = 8
FUSED = [["1", "2"], ["4", "5"], ["8", "9"]]


def config(kind):
    weight = dict(dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
    range_of = dict(dtype=torch.quint8, reduce_range=False)
    if kind == "after":
        return quantization.QConfig(quantization.MinMaxObserver.with_args(**range_of),
                                    quantization.PerChannelMinMaxObserver.with_args(**weight))
    moving = quantization.FakeQuantize.with_args(observer=quantization.MovingAverageMinMaxObserver, **range_of)
    return quantization.QConfig(moving, quantization.FakeQuantize.with_args(
        observer=quantization.MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, **weight))


def run(seed, kind):
    torch.manual_seed(seed)
    digits = Digits()
    model = nn.Sequential(quantization.QuantStub(), *layers(), quantization.DeQuantStub())
    if kind == "aware":
        model.qconfig = config(kind)
        model = quantization.prepare_qat(quantization.fuse_modules_qat(model.train(), FUSED))
    train(model, digits)
    model.eval()
    trained = digits.accuracy(model)
    if kind == "after":
        model.qconfig = config(kind)
        model = quantization.prepare(quantization.fuse_modules(model, FUSED))
        with torch.no_grad():
            for _ in range(CALIBRATION):
                model(digits.pixels[digits.drawn()[:BATCH]])
    model = quantization.convert(model)
    return dict(name="cnn-digits-int8", kind=kind, seed=seed, trained_test_accuracy=trained,
                test_accuracy=digits.accuracy(model))


if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.backends.quantized.engine = "fbgemm"
    for kind in ("after", "aware"):
        for seed in (1, 2, 3):
            print(json.dumps(run(seed, kind)), flush=True)
