#!/usr/bin/env python3
"""What a small model learns of labels alone, and with a teacher in addition: a JSON object a run.

    python3 tests/distillation.py [PROGRAM] > tests/measurements/distillation-cpu.jsonl

For each seed the teacher is trained first, as its preset ships. The seed draws what is held out, the weights and the order of
the samples, so a teacher has never seen the samples that test its student. Then the student is trained as its preset ships,
and once more with the teacher. `accuracy` is of the held-out samples at the end.
"""

import tempfile

from trained import SEEDS, show, train

PAIRS = [("cnn-digits-teacher", "mlp-digits-student"), ("modular-grokking", "modular-student")]

for teacher, student in PAIRS:
    for seed in SEEDS:
        drawn = ["--set", f"run.seed={seed}"]
        with tempfile.TemporaryDirectory() as folder:
            ends = [(teacher, "labels", train(teacher, *drawn, "--checkpoints", folder)),
                    (student, "labels", train(student, *drawn)),
                    (student, teacher, train(student, *drawn, "--set", f"distil.teacher={folder}"))]
        for name, taught_by, end in ends:
            show(end, name=name, taught_by=taught_by, seed=seed)
