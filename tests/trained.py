"""Runs of presets on this machine's processor, and the lines in which `tests/measurements` keeps what they came to."""

import datetime
import json
import os
import platform
import subprocess
import sys

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/plimsoll"
SEEDS = [1, 2, 3]


def processor():
    try:
        with open("/proc/cpuinfo") as text:
            return next(line.split(":", 1)[1].strip() for line in text if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def train(preset, *rest):
    """Trains a preset with further arguments, and gives the event at its end."""
    command = [PROGRAM, "train", preset, "--device", "cpu", "--keep", "nothing", "--json", "--quiet", *rest]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    end = json.loads(lines[-1])
    assert end["event"] == "finished", end
    return end


def show(end, **about):
    """Prints the line of a run: what it is about, what it came to, and where and when."""
    version = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    row = about | {"accuracy": end["test_accuracy"], "loss": end["train_loss"], "steps": end["steps"],
                   "predicted": end["predicted"], "measured": end["measured"],
                   "ok": end["predicted"]["live_bytes"] >= end["measured"]["live_bytes"],
                   "on": "cpu", "device": processor(), "threads": os.cpu_count(),
                   "date": datetime.date.today().isoformat(), "version": version, "driver": None}
    print(json.dumps(row), flush=True)
