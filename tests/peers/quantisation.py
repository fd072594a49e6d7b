#!/usr/bin/env python3
"""PyTorch's 8-bit integers beside ours: the accuracy of the preset `cnn-digits-int8`, over three seeds, one JSON line a run.

Needs torch with torch.ao.quantization. The CNN of the preset on the digits that ship, 1,320 steps of 64, AdamW 0.002, cosine.
"after" finds ranges by the least and the largest number in eight batches, as ours does; "aware" trains with rounded numbers and
ranges that move by a hundredth. Weights have a scale a filter.

Ours, with S from 1 to 3 and K after or aware; "trained_test_accuracy" is that of the model as it was trained:

    plimsoll train cnn-digits-int8 --json --quiet --set run.seed=S --set quantise.kind=K
"""
import csv, gzip, json, pathlib, warnings
import torch, torch.nn as nn, torch.nn.functional as F
import torch.ao.quantization as quantization

warnings.filterwarnings("ignore")
DIGITS = pathlib.Path(__file__).parents[2] / "assets/data/digits.csv.gz"
STEPS, BATCH, RATE, CALIBRATION = 1320, 64, 2e-3, 8


def cnn():
    return nn.Sequential(quantization.QuantStub(), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10), quantization.DeQuantStub())


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
    rows = torch.tensor([[int(v) for v in row] for row in csv.reader(gzip.open(DIGITS, "rt"))])
    rows = rows[torch.randperm(len(rows))]
    x, y = rows[:, :64].float().view(-1, 1, 8, 8), rows[:, 64]
    test = round(len(rows) * 0.2)
    x = (x - x[test:].mean()) / x[test:].std()
    model = cnn()
    if kind == "aware":
        model.qconfig = config(kind)
        model = quantization.prepare_qat(quantization.fuse_modules_qat(model.train(), FUSED))
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

    def accuracy():
        with torch.no_grad():
            return round((model(x[:test]).argmax(1) == y[:test]).float().mean().item(), 4)

    model.eval()
    trained = accuracy()
    if kind == "after":
        model.qconfig = config(kind)
        model = quantization.prepare(quantization.fuse_modules(model, FUSED))
        with torch.no_grad():
            for _ in range(CALIBRATION):
                model(x[torch.randperm(len(x) - test)[:BATCH] + test])
    model = quantization.convert(model)
    return dict(name="cnn-digits-int8", kind=kind, seed=seed, trained_test_accuracy=trained, test_accuracy=accuracy())


if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.backends.quantized.engine = "fbgemm"
    for kind in ("after", "aware"):
        for seed in (1, 2, 3):
            print(json.dumps(run(seed, kind)), flush=True)
