#!/usr/bin/env python3
"""What presets learn with AdamW and with rules that keep less state: a JSON object a run.

    python3 tests/optimizers.py [PROGRAM [RULE ...]] > tests/measurements/optimizers-cpu.jsonl

With names of rules it trains by those alone, so that what they learn can be added to what is known of the others. Each preset
is trained as it ships, but for the rule and the seed, which draws the weights, the order of the samples and what is held out.
So all rules have AdamW's learning rate, which suits it, and APOLLO-Mini five times that as well: `times`. `accuracy` is of
the held-out samples at the end.
"""

import re
import sys
from pathlib import Path

from trained import SEEDS, show, train

PRESETS = ["mlp-digits", "cnn-digits", "vit-digits", "sort-llama"]
RULES = [("adamw", 1), ("adamw8bit", 1), ("adamw4bit", 1), ("flash-adamw", 1), ("muon", 1), ("apollo-mini", 1),
         ("apollo-mini", 5)]
CHOSEN = sys.argv[2:] or [rule for rule, _ in RULES]


def rate(preset):
    text = (Path(__file__).parent.parent / "presets" / f"{preset}.toml").read_text()
    return float(re.search(r"^learning_rate = (\S+)", text, re.M).group(1))


for preset in PRESETS:
    for rule, times in [of for of in RULES if of[0] in CHOSEN]:
        for seed in SEEDS:
            end = train(preset, "--set", f"optimizer.kind={rule}", "--set", f"run.seed={seed}",
                        "--set", f"optimizer.learning_rate={times * rate(preset):.6g}")
            show(end, name=preset, optimizer=rule, times=times, seed=seed)
