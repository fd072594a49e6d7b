"""What `pruning.py` and `quantisation.py` share: the digits that ship, and the recipe of the presets `cnn-digits-pruned` and
`cnn-digits-int8`: 1,320 steps of 64, AdamW 0.002, cosine.
"""
import csv, gzip, pathlib
import torch, torch.nn as nn, torch.nn.functional as F

DIGITS = pathlib.Path(__file__).parents[2] / "assets/data/digits.csv.gz"
STEPS, BATCH, RATE = 1320, 64, 2e-3


class Digits:
    """Pixels [samples, 1, 8, 8] and labels [samples], in an order that torch's seed draws: a fifth for the test, the rest to learn."""

    def __init__(self):
        rows = torch.tensor([[int(v) for v in row] for row in csv.reader(gzip.open(DIGITS, "rt"))])
        rows = rows[torch.randperm(len(rows))]
        self.pixels, self.labels = rows[:, :64].float().view(-1, 1, 8, 8), rows[:, 64]
        self.test = round(len(rows) * 0.2)
        learnt = self.pixels[self.test:]
        self.pixels = (self.pixels - learnt.mean()) / learnt.std()

    def drawn(self):
        """Samples to learn from, in a new order."""
        return torch.randperm(len(self.pixels) - self.test) + self.test

    def accuracy(self, model):
        with torch.no_grad():
            return round((model(self.pixels[:self.test]).argmax(1) == self.labels[:self.test]).float().mean().item(), 4)


def layers():
    return [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)]


def train(model, digits, after_step=lambda step: None):
    # Weight decay, as ours, on all parameters.
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    order = iter(())
    for step in range(1, STEPS + 1):
        at = next(order, None)
        if at is None or len(at) < BATCH:
            order = iter(digits.drawn().split(BATCH))
            at = next(order)
        loss = F.cross_entropy(model(digits.pixels[at]), digits.labels[at])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        after_step(step)
