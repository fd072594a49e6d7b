#!/usr/bin/env python3
"""What a small model learns of labels alone, and of a teacher beside them: a JSON object a run.

    python3 tests/distillation.py [PROGRAM] > tests/measurements/distillation-cpu.jsonl

For each seed the teacher is trained first, as its preset ships. The seed draws what is held out, the weights and the order of
the samples, so a teacher has never seen the samples that test its student. Then the student is trained as its preset ships,
and once more with the teacher. `accuracy` is of the held-out samples at the end.
"""

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/plimsoll"
PAIRS = [("cnn-digits-teacher", "mlp-digits-student")]
SEEDS = [1, 2, 3]


def processor():
    try:
        with open("/proc/cpuinfo") as text:
            return next(line.split(":", 1)[1].strip() for line in text if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def train(preset, seed, *rest):
    command = [PROGRAM, "train", preset, "--device", "cpu", "--json", "--quiet", "--set", f"run.seed={seed}", *rest]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    end = json.loads(lines[-1])
    assert end["event"] == "finished", end
    return end


def main():
    version = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    about = {"on": "cpu", "device": processor(), "threads": os.cpu_count(),
             "date": datetime.date.today().isoformat(), "version": version}
    for teacher, student in PAIRS:
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                kept = train(teacher, seed, "--keep", "nothing", "--checkpoints", folder)
                taught = ["--keep", "nothing", "--set", f"distil.teacher={folder}"]
                ends = [(teacher, "labels", kept), (student, "labels", train(student, seed, "--keep", "nothing")),
                        (student, teacher, train(student, seed, *taught))]
            for name, taught_by, end in ends:
                row = {"name": name, "taught_by": taught_by, "seed": seed, "accuracy": end["test_accuracy"],
                       "loss": end["train_loss"], "steps": end["steps"], "predicted": end["predicted"],
                       "measured": end["measured"], "ok": end["predicted"]["live_bytes"] >= end["measured"]["live_bytes"]}
                print(json.dumps(row | about | {"driver": None}), flush=True)


main()
