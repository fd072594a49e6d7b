#!/usr/bin/env python3
"""What presets learn with AdamW and with rules that keep less state: a JSON object a run.

    python3 tests/optimizers.py [PROGRAM [RULE ...]] > tests/measurements/optimizers-cpu.jsonl

With names of rules it trains by those alone, so that what they learn can be added to what is known of the others. Each preset is trained as it ships, but for the rule and the seed, which draws the weights, the order of the samples and what
is held out. So all rules have AdamW's learning rate, which suits it, and APOLLO-Mini five times that as well: `times`.
`accuracy` is of the held-out samples at the end.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/plimsoll"
PRESETS = ["mlp-digits", "cnn-digits", "vit-digits", "sort-llama"]
RULES = [("adamw", 1), ("adamw8bit", 1), ("adamw4bit", 1), ("flash-adamw", 1), ("muon", 1), ("apollo-mini", 1),
         ("apollo-mini", 5)]
CHOSEN = sys.argv[2:] or [rule for rule, _ in RULES]
SEEDS = [1, 2, 3]


def processor():
    try:
        with open("/proc/cpuinfo") as text:
            return next(line.split(":", 1)[1].strip() for line in text if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def rate(preset):
    text = (Path(__file__).parent.parent / "presets" / f"{preset}.toml").read_text()
    return float(re.search(r"^learning_rate = (\S+)", text, re.M).group(1))


def train(preset, rule, times, seed):
    command = [PROGRAM, "train", preset, "--device", "cpu", "--keep", "nothing", "--json", "--quiet",
               "--set", f"optimizer.kind={rule}", "--set", f"run.seed={seed}",
               "--set", f"optimizer.learning_rate={times * rate(preset):.6g}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    end = json.loads(lines[-1])
    assert end["event"] == "finished", end
    return end


def main():
    version = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    about = {"on": "cpu", "device": processor(), "threads": os.cpu_count(),
             "date": datetime.date.today().isoformat(), "version": version}
    for preset in PRESETS:
        for rule, times in [of for of in RULES if of[0] in CHOSEN]:
            for seed in SEEDS:
                end = train(preset, rule, times, seed)
                row = {"name": preset, "optimizer": rule, "times": times, "seed": seed, "accuracy": end["test_accuracy"],
                       "loss": end["train_loss"], "steps": end["steps"], "predicted": end["predicted"],
                       "measured": end["measured"], "ok": end["predicted"]["live_bytes"] >= end["measured"]["live_bytes"]}
                print(json.dumps(row | about | {"driver": None}), flush=True)


main()
