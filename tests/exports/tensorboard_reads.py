#!/usr/bin/env python3
"""Reads an event file that Plimsoll wrote with the `tensorboard` package, and compares it with the CSV of the same run. Then
starts TensorBoard itself on the folder, and asks it for the same over HTTP, as its page does.

    pip install tensorboard
    plimsoll train mlp-digits --steps 30 && plimsoll export last --format tensorboard -o logs/first
    plimsoll export last --format csv -o first.csv
    tests/exports/tensorboard_reads.py logs/first first.csv
"""
import csv, json, math, re, struct, subprocess, sys, tempfile, time, urllib.parse, urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator, TENSORS, SCALARS
from tensorboard.plugins.hparams import plugin_data_pb2


def hparams(accumulator, tag):
    content = accumulator.SummaryMetadata(tag).plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


def serves(logs, expected, settings):
    """Holds what TensorBoard's own program answers against the curves, the preset and the settings."""
    with tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", logs, "--port", "0", "--load_fast", "false",
                   "--samples_per_plugin", f"scalars={max(map(len, expected.values()))}"]
        server = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            for _ in range(600):
                time.sleep(0.1)
                said.seek(0)
                text = said.read()
                if found := re.search(r"TensorBoard (\S+) at (http://\S+?)/? ", text):
                    break
                assert server.poll() is None, text
            else:
                raise AssertionError(f"TensorBoard does not begin: {text}")
            version, address = found.groups()

            def ask(path, data=None):
                asked = urllib.request.Request(f"{address}/data/{path}", data, {"Content-Type": "application/json"})
                return json.load(urllib.request.urlopen(asked, timeout=60))

            for _ in range(600):
                tags = ask("plugin/scalars/tags")
                if tags and set(expected) <= set(next(iter(tags.values()))):
                    break
                time.sleep(0.1)
            (run, tags), = tags.items()
            assert set(expected) <= set(tags), (sorted(expected), sorted(tags))
            for name, points in expected.items():
                assert tags[name]["description"], name
                asked = urllib.parse.urlencode({"run": run, "tag": name})
                answered = ask(f"plugin/scalars/scalars?{asked}")
                assert [step for _, step, _ in answered] == [step for step, _ in points], name
                last = float(answered[-1][2])
                assert math.isclose(last, points[-1][1], rel_tol=1e-6, abs_tol=1e-30) or math.isnan(last), (name, last)
            assert "preset" in ask("plugin/text/tags")[run], "the preset is not text"
            experiment = ask("plugin/hparams/experiment", data=b"{}")
            assert {info["name"] for info in experiment["hparamInfos"]} == settings, experiment
        finally:
            server.terminate()
            server.wait()
    print(f"TensorBoard {version} serves {len(expected)} scalars, the preset and {len(settings)} settings")


def main(logs, table):
    accumulator = EventAccumulator(logs, size_guidance={SCALARS: 0, TENSORS: 0})
    accumulator.Reload()
    rows = list(csv.DictReader(open(table)))
    expected = {name: [(int(row["step"]), float(row[name])) for row in rows if row[name]]
                for name in rows[0] if name not in ("step", "secs")}
    # The loader makes a tensor of a scalar that says that it is one.
    tags = accumulator.Tags()
    assert set(expected) <= set(tags["scalars"]) | set(tags["tensors"]), (sorted(expected), tags)
    for name, points in expected.items():
        if name in tags["scalars"]:
            found = [(event.step, event.value) for event in accumulator.Scalars(name)]
        else:
            found = [(event.step, event.tensor_proto.float_val[0] if event.tensor_proto.float_val
                      else struct.unpack("<f", event.tensor_proto.tensor_content)[0])
                     for event in accumulator.Tensors(name)]
        assert [step for step, _ in found] == [step for step, _ in points], name
        for (_, a), (_, b) in zip(found, points):
            assert math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-30) or (math.isnan(a) and math.isnan(b)), (name, a, b)
        assert accumulator.SummaryMetadata(name).plugin_data.plugin_name == "scalars", name
        assert accumulator.SummaryMetadata(name).summary_description, name
    preset = accumulator.Tensors("preset")[0].tensor_proto.string_val[0].decode()
    assert "version = 2" in preset, preset
    session = hparams(accumulator, "_hparams_/session_start_info").session_start_info
    experiment = hparams(accumulator, "_hparams_/experiment").experiment
    assert session.hparams and {info.name for info in experiment.hparam_infos} == set(session.hparams), session
    assert {info.name.tag for info in experiment.metric_infos} == set(expected)
    points = sum(len(points) for points in expected.values())
    print(f"{len(expected)} scalars with {points} points, {len(session.hparams)} settings, the preset: as in {table}")
    serves(logs, expected, set(session.hparams))


if __name__ == "__main__":
    main(*sys.argv[1:])
