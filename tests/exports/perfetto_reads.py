#!/usr/bin/env python3
"""Reads a trace that Plimsoll wrote with Perfetto's `trace_processor`, and checks that slices and counters are as planned.

    pip install perfetto
    plimsoll export cnn-digits --format perfetto -o step.json
    plimsoll export cnn-digits --format csv -o step.csv
    tests/exports/perfetto_reads.py step.json step.csv [path of trace_processor_shell]

The package fetches the program once; where it cannot, name one. Without it only the JSON is checked.
"""
import csv, json, subprocess, sys

KINDS = {"X": {"name", "cat", "ts", "dur", "pid", "tid", "args"}, "C": {"name", "ts", "pid", "args"},
         "M": {"name", "pid", "args"}}


def check_json(path, rows):
    trace = json.load(open(path))
    events = trace["traceEvents"]
    for event in events:
        assert KINDS[event["ph"]] <= set(event), event
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0, event
    ops = [event for event in events if event["ph"] == "X" and "live_bytes" in event["args"]]
    assert len(ops) == len(rows), (len(ops), len(rows))
    ops.sort(key=lambda event: event["ts"])
    assert [(op["name"], op["args"]["live_bytes"]) for op in ops] == [(row["name"], int(row["live_bytes"])) for row in rows]
    print(f"{path}: {len(events)} events, {len(ops)} ops")


def check_with_perfetto(path, rows, shell):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    processor = TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=shell))
    one = lambda sql: next(iter(processor.query(sql)))
    errors = [(row.name, row.value) for row in processor.query("select name, value from stats where severity = 'error' and value > 0")]
    assert not errors, errors
    ops = one("select count(*) n from slice where extract_arg(arg_set_id, 'args.live_bytes') is not null").n
    assert ops == len(rows), (ops, len(rows))
    tracks = one("select count(distinct track_id) n from slice").n
    highest = one("select max(s) n from (select ts, sum(value) s from counter c join counter_track t on c.track_id = t.id "
                  "where t.name like 'memory in bytes%' group by ts)").n
    assert highest >= max(int(row["live_bytes"]) for row in rows), highest
    print(f"trace_processor: {ops} ops on {tracks} tracks, counters up to {highest:.0f} bytes")


def main(trace, table, shell=None):
    rows = list(csv.DictReader(open(table)))
    check_json(trace, rows)
    try:
        check_with_perfetto(trace, rows, shell)
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"trace_processor is not here, only the JSON was checked: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
