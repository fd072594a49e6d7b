#!/usr/bin/env python3
"""How near the predicted size of a process on the CPU is to the measured one: a JSON object a run.

    python3 tests/process.py PROGRAM [DRAWN [SEED]] > tests/measurements/process-cpu.jsonl

Each shipped preset that trains here is trained for 25 steps, and DRAWN experiments of a draw (57 of seed 7, if nothing else is
asked for) for as many as they were drawn with, each in three processes of its own: the first does not keep its run, the others
do. All are in bytes. `predicted` is what `finished` tells, and `measured` the high-water mark of the resident memory since the
run began; `kept_predicted` and `kept_measured` are those of the second process, and `again_predicted` and `again_measured` those
of the third, which has seen the run of the second. `planned` is what `plimsoll plan` tells before all of them, of a run that is
kept, and `planned_again` what it tells after them. The program begins with an empty cache, as on a machine that is new to it.
What takes more than half a minute, or has no data here, is left out. A summary goes to the standard error.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = sys.argv[1]
DRAWN, SEED = (sys.argv[2:] + ["57", "7"][len(sys.argv) - 2:])[:2]
PATIENCE_SECS = 30


CACHE = tempfile.TemporaryDirectory()


def last(*arguments):
    """The last JSON object that the program writes; nothing if it fails, or takes too long."""
    try:
        done = subprocess.run([PROGRAM, *arguments, "--json"], capture_output=True, text=True, timeout=PATIENCE_SECS,
                              env={**os.environ, "XDG_CACHE_HOME": CACHE.name})
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def trained(*arguments):
    """What a run was predicted to take and took, or nothing."""
    end = last("train", *arguments)
    if end is None or end["process_is_sampled"]:
        return None
    return {"predicted": end["predicted"]["process_bytes"], "measured": end["measured"]["process_bytes"]}, end


def measure(of, name, *preset):
    planned = last("plan", *preset)
    run = planned and trained(*preset, "--keep", "nothing")
    with tempfile.TemporaryDirectory() as store:
        kept = run and trained(*preset, "--store", store)
        again = kept and trained(*preset, "--store", store)
    if not again:
        return None
    planned_again = last("plan", *preset)
    end = run[1]
    row = {"of": of, "name": name, **run[0], **{f"kept_{key}": bytes for key, bytes in kept[0].items()},
           **{f"again_{key}": bytes for key, bytes in again[0].items()}, "planned": planned["peak"]["process_bytes"],
           "planned_again": planned_again["peak"]["process_bytes"], "live": end["measured"]["live_bytes"],
           "predicted_live": end["predicted"]["live_bytes"], "reserved": end["measured"]["reserved_bytes"]}
    print(json.dumps(row), flush=True)
    return row


PREDICTED = [("predicted", "measured"), ("kept_predicted", "kept_measured"), ("again_predicted", "again_measured"),
             ("planned", "kept_measured"), ("planned_again", "again_measured")]


def summary(of, rows):
    for key, measured in PREDICTED:
        off = [(row[key] / row[measured] - 1) * 100 for row in rows]
        inside = sum(0 <= percent <= 3 for percent in off)
        print(f"{of}, {key}: {len(off)} runs, median {sorted(map(abs, off))[len(off) // 2]:.2f}%, from {min(off):+.2f}% to "
              f"{max(off):+.2f}%, {sum(percent < 0 for percent in off)} below, {inside} from 0 to 3%", file=sys.stderr)


presets = sorted(path.stem for path in (Path(__file__).parent.parent / "presets").glob("*.toml"))
rows = [row for name in presets if (row := measure("presets", name, name, "--set", "run.steps=25"))]
summary("presets", rows)
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([PROGRAM, "verify", "--drawn", DRAWN, "--seed", SEED, "--write", folder], check=True)
    drawn = sorted(Path(folder).glob("*.toml"))
    rows = [row for path in drawn if (row := measure("drawn", f"{path.stem} of seed {SEED}", str(path)))]
summary("drawn", rows)
