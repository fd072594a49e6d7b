#!/usr/bin/env python3
"""Cuts the power of a run, again and again, and looks at what is left.

    python3 tests/power_cut.py [PROGRAM] [CUTS] [SEED]

A short run is trained once under `strace`, which notes what it writes, syncs, renames and removes. From these notes a disk is
put together as a power cut at a moment would leave it: what was synced is there; of what was written since, each sector of
512 bytes is there or is not; of the names that were made, moved and removed since, some first ones are done (file systems with
a journal keep their order, and a sync writes the journal). Then the program itself looks at that disk: the store opens, the
run goes on from the last checkpoint that had been put in its place and synced, and its losses are those of the unbroken run
to the last bit. A run that had no checkpoint yet, or whose record is lost, says so in words.

Needs Linux and strace. Ends with status 1 where a cut lost something.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/plimsoll"
CUTS = int(sys.argv[2]) if len(sys.argv) > 2 else 100
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
STEPS = 120
RUN = ["train", "mlp-digits", "--steps", str(STEPS), "--set", "run.save_every=10", "--set", "run.save_best=true",
       "--set", "run.evaluate_every=15", "--json"]
SECTOR = 512
CALLS = "openat,creat,write,pwrite64,writev,ftruncate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir," \
        "mkdirat,rmdir,close,lseek,dup,dup3,fcntl,fallocate,sendfile,copy_file_range"
LINE = re.compile(rb"^(\d+\.\d+) (\w+)\((.*)\) += (-?\d+).*<(\d+\.\d+)>$", re.S)
TEXT = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')


def text(quoted):
    return bytes.fromhex(quoted.replace(b"\\x", b"").decode())


class File:
    """What is in a file now, and what of it is on the disk."""

    def __init__(self):
        self.now, self.synced, self.since = bytearray(), bytearray(), []

    def write(self, at, data):
        if len(self.now) < at + len(data):
            self.now.extend(bytes(at + len(data) - len(self.now)))
        self.now[at:at + len(data)] = data
        self.since.append((at, data))

    def resize(self, size):
        del self.now[size:]
        self.now.extend(bytes(size - len(self.now)))
        self.since.append((size, None))

    def sync(self):
        self.synced, self.since = bytearray(self.now), []

    def after_cut(self, dice):
        """As a cut leaves it: each sector that was written since may be there."""
        left = bytearray(self.synced)
        keeps = dice.random()
        for at, data in self.since:
            if data is None:
                if dice.random() < keeps:
                    del left[at:]
                    left.extend(bytes(at - len(left)))
                continue
            for start in range(0, len(data), SECTOR):
                piece = data[start:start + SECTOR]
                if dice.random() < keeps:
                    place = at + start
                    left.extend(bytes(max(0, place + len(piece) - len(left))))
                    left[place:place + len(piece)] = piece
        return bytes(left)


class Disk:
    """The files below a folder by their paths, now and in the journal."""

    def __init__(self):
        self.names, self.synced, self.since = {}, {}, []
        self.open, self.positions, self.appends = {}, {}, set()

    def name(self, change):
        change(self.names)
        self.since.append(change)

    def sync(self):
        for change in self.since:
            change(self.synced)
        self.since = []

    def after_cut(self, dice):
        names = dict(self.synced)
        for change in self.since[:dice.randint(0, len(self.since))]:
            change(names)
        return {path: file and file.after_cut(dice) for path, file in names.items()}


def calls(folder):
    """What all threads asked for, in order."""
    found = []
    for trace in Path(folder).glob("trace.*"):
        for line in trace.read_bytes().split(b"\n"):
            match = LINE.match(line)
            if match and int(match[4]) >= 0:
                # A number of a file that is closed may be given out before the closing has come back.
                took = 0 if match[2] == b"close" else float(match[5])
                found.append((float(match[1]) + took, match[2].decode(), match[3], int(match[4])))
    return sorted(found, key=lambda call: call[0])


def replay(disk, call, root):
    """Does a call once more; whether it was one of this folder."""
    _, name, arguments, result = call
    strings = [text(match[0]) for match in TEXT.findall(arguments)]
    assert b'"...' not in arguments, "strace cut a text short"
    paths = [os.path.normpath(string.decode(errors="surrogateescape")) for string in strings]
    first = arguments.split(b",")[0].split(b"<")[0]
    number = int(first) if first.isdigit() else None
    file = disk.open.get(number)
    if name in ("openat", "creat"):
        path = paths[0]
        disk.open.pop(result, None)
        if not path.startswith(root):
            return False
        if path not in disk.names and b"O_CREAT" not in arguments:
            # A folder: its sync writes the journal.
            disk.open[result] = None
            return False
        is_new = path not in disk.names
        if is_new:
            made = File()
            disk.name(lambda names: names.__setitem__(path, made))
        disk.open[result], disk.positions[result] = disk.names[path], 0
        disk.appends.discard(result)
        if b"O_APPEND" in arguments:
            disk.appends.add(result)
        if b"O_TRUNC" in arguments and not is_new:
            disk.names[path].resize(0)
        return is_new
    if name in ("dup", "dup3") or (name == "fcntl" and b"F_DUPFD" in arguments):
        if number in disk.open:
            disk.open[result], disk.positions[result] = file, disk.positions.get(number, 0)
        return False
    if name == "close":
        disk.open.pop(number, None)
        return False
    if name in ("rename", "renameat", "renameat2") and paths[0].startswith(root):
        def move(names):
            if paths[0] in names:
                names[paths[1]] = names.pop(paths[0])
        disk.name(move)
        return True
    if name in ("unlink", "unlinkat", "rmdir") and paths[0].startswith(root):
        disk.name(lambda names: names.pop(paths[0], None))
        return True
    if name in ("mkdir", "mkdirat") and paths[0].startswith(root):
        disk.name(lambda names: names.__setitem__(paths[0], None))
        return True
    if name in ("fsync", "fdatasync") and number in disk.open:
        if file:
            file.sync()
        disk.sync()
        return True
    if file is None:
        return False
    if name == "lseek":
        disk.positions[number] = result
        return False
    if name in ("write", "writev"):
        data = b"".join(strings)[:result]
        at = len(file.now) if number in disk.appends else disk.positions[number]
        file.write(at, data)
        disk.positions[number] = at + result
        return True
    if name == "pwrite64":
        file.write(int(arguments.rsplit(b",", 1)[1]), strings[0][:result])
        return True
    if name in ("ftruncate", "fallocate"):
        numbers = [int(n) for n in arguments.split(b", ")[1:] if n.strip().isdigit()]
        size = numbers[0] if name == "ftruncate" else max(len(file.now), sum(numbers[-2:]))
        file.resize(size)
        return True
    if name in ("sendfile", "copy_file_range"):
        raise SystemExit(f"{name} is not known here")
    return False


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120)


def show(key, store):
    output = program("show", key, "--store", store, "--json")
    assert output.returncode == 0, output.stderr
    return json.loads(output.stdout)


def whole_step(content):
    """The step of a checkpoint, from its header."""
    length = int.from_bytes(content[:8], "little")
    return int(json.loads(content[8:8 + length])["__metadata__"]["step"])


def look(disk, left, root, key, unbroken, place):
    """What the program makes of a disk after a cut: what is wrong, and whether the run went on."""
    for path, content in left.items():
        target = Path(place + path[len(root):])
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
    for path, content in left.items():
        target = Path(place + path[len(root):])
        # What is shared between processes is memory, and made anew.
        if content is not None and not path.endswith("-shm"):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    Path(place).mkdir(exist_ok=True)
    listed = program("runs", "--store", place, "--json")
    if listed.returncode != 0 and "is an empty file" not in listed.stderr:
        return f"`runs` failed: {listed.stderr}", False
    last = f"{root}/runs/{key}/last.safetensors"
    promised = disk.synced.get(last)
    promised = whole_step(promised.synced) if promised else 0
    there = left.get(last)
    step = whole_step(there) if there else 0
    if step < promised:
        return f"the checkpoint of step {promised} is lost; step {step} is there", False
    if not there:
        return None, False
    is_listed = key in listed.stdout
    # A run whose record is lost goes on from its file.
    subject = key if is_listed else place + last[len(root):]
    resumed = program("resume", subject, "--steps", str(STEPS), "--store", place, "--json")
    # A run with all its steps says that there is nothing to go on to.
    has_all = step == STEPS and f"the checkpoint was written after {STEPS}" in resumed.stderr
    if resumed.returncode != 0 and not has_all:
        return f"`resume` of step {step} failed: {resumed.stderr}", False
    if is_listed:
        series = show(key, place)["series"]["steps"]
        losses = dict(zip(series["step"], series["loss"]))
    else:
        events = [json.loads(line) for line in resumed.stdout.splitlines()]
        losses = {event["step"]: event["loss"] for event in events if event["event"] == "step"}
    wrong = [at for at, loss in losses.items() if unbroken[at] != loss]
    if wrong or (resumed.returncode == 0 and not set(range(step + 1, STEPS + 1)) <= set(losses)):
        return f"going on from step {step}, other losses at {wrong}", False
    return None, True


def main():
    dice = random.Random(SEED)
    with tempfile.TemporaryDirectory() as work:
        root = f"{work}/store"
        trace = ["strace", "-ff", "-ttt", "-T", "-xx", "-s", "16777216", "-e", f"trace={CALLS}", "-o", f"{work}/trace"]
        ran = subprocess.run([*trace, PROGRAM, *RUN, "--store", root], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        key = next(json.loads(line)["run"] for line in ran.stdout.splitlines() if '"kept"' in line)
        series = show(key, root)["series"]["steps"]
        unbroken = dict(zip(series["step"], series["loss"]))
        assert len(unbroken) == STEPS
        asked = calls(work)
        probe, changes = Disk(), []
        for at, call in enumerate(asked):
            if replay(probe, call, root):
                changes.append(at)
        for path, file in probe.names.items():
            there = Path(path)
            assert there.exists() and (file is None or path.endswith("-shm") or there.read_bytes() == file.now), path
        cuts = sorted(dice.choice(changes) for _ in range(CUTS))
        disk, done, faults, went_on = Disk(), 0, 0, 0
        for number, cut in enumerate(cuts):
            for call in asked[done:cut + 1]:
                replay(disk, call, root)
            done = max(done, cut + 1)
            place = f"{work}/after{number}"
            fault, has_gone_on = look(disk, disk.after_cut(dice), root, key, unbroken, place)
            subprocess.run(["rm", "-rf", place], check=True)
            went_on += has_gone_on
            if fault:
                faults += 1
                print(f"cut behind call {cut} of {len(asked)}: {fault}")
        print(f"{CUTS} power cuts in a run of {len(changes)} writes (seed {SEED}): {went_on} went on with the same losses or "
              f"had come to their end, {CUTS - went_on - faults} had no checkpoint yet, {faults} lost something")
        sys.exit(1 if faults else 0)


main()
