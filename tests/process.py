#!/usr/bin/env python3
"""How near the predicted size of a process on the CPU is to the measured one: a JSON object a run.

    python3 tests/process.py PROGRAM [DRAWN [SEED]] > tests/measurements/process-cpu.jsonl

Each shipped preset that trains here is trained in two processes of its own, of which one keeps the run, and so are DRAWN
experiments of a draw (57 of seed 7, if nothing else is asked for). `predicted` is what `finished` tells, and `measured` the
high-water mark of the resident memory since the run began; `kept_predicted` and `kept_measured` are those of the run that is
kept. `planned` is what `plimsoll plan` tells in another process, of a run that is kept. All are in bytes. What takes more than
half a minute, or has no data here, is left out. A summary goes to the standard error.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = sys.argv[1]
DRAWN, SEED = (sys.argv[2:] + ["57", "7"][len(sys.argv) - 2:])[:2]
PATIENCE_SECS = 30


def last(*arguments):
    """The last JSON object that the program writes; nothing if it fails, or takes too long."""
    try:
        done = subprocess.run([PROGRAM, *arguments, "--json"], capture_output=True, text=True, timeout=PATIENCE_SECS)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def measure(of, name, preset, *arguments):
    end = last("train", preset, *arguments, "--keep", "nothing")
    with tempfile.TemporaryDirectory() as store:
        kept = end and last("train", preset, *arguments, "--store", store)
    plan = kept and last("plan", preset)
    if end is None or plan is None or end["process_is_sampled"]:
        return None
    row = {"of": of, "name": name, "predicted": end["predicted"]["process_bytes"], "planned": plan["peak"]["process_bytes"],
           "measured": end["measured"]["process_bytes"], "kept_predicted": kept["predicted"]["process_bytes"],
           "kept_measured": kept["measured"]["process_bytes"], "live": end["measured"]["live_bytes"],
           "predicted_live": end["predicted"]["live_bytes"], "reserved": end["measured"]["reserved_bytes"]}
    print(json.dumps(row), flush=True)
    return row


def summary(of, rows):
    for key, measured in [("predicted", "measured"), ("kept_predicted", "kept_measured"), ("planned", "kept_measured")]:
        off = [(row[key] / row[measured] - 1) * 100 for row in rows]
        inside = sum(0 <= percent <= 3 for percent in off)
        print(f"{of}, {key}: {len(off)} runs, median {sorted(map(abs, off))[len(off) // 2]:.2f}%, from {min(off):+.2f}% to "
              f"{max(off):+.2f}%, {sum(percent < 0 for percent in off)} below, {inside} from 0 to 3%", file=sys.stderr)


presets = sorted(path.stem for path in (Path(__file__).parent.parent / "presets").glob("*.toml"))
rows = [row for name in presets if (row := measure("presets", name, name, "--steps", "25"))]
summary("presets", rows)
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([PROGRAM, "verify", "--drawn", DRAWN, "--seed", SEED, "--write", folder], check=True)
    drawn = sorted(Path(folder).glob("*.toml"))
    rows = [row for path in drawn if (row := measure("drawn", f"{path.stem} of seed {SEED}", str(path)))]
summary("drawn", rows)
