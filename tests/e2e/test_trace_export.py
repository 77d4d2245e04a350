"""`export --trace`: what Perfetto and Chrome read equals the rows that it is made of."""
import json
import os
import shutil

import pytest

import webjobs

pytestmark = webjobs.needed


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    it = webjobs.Jobs(tmp_path_factory.mktemp("trace"))
    it.hold()
    yield it
    it.stop()


def export(jobs, target, path, *words):
    answer = jobs.node(target, "export", "--trace", path, *words)
    assert answer.returncode == 0, answer
    assert answer.stdout.startswith(path) and "MB" in answer.stdout
    return path


def read(path):
    """Tracks by number, and their slices: (name, begin, end) in ns."""
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = protos.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    tracks, processes, slices, values, opened = {}, {}, {}, {}, {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid] = track
            if track.HasField("process"):
                processes[track.uuid] = track.process
    for packet in trace.packet:
        if not packet.HasField("track_event") or packet.trusted_packet_sequence_id != 2:
            continue
        event, at = packet.track_event, packet.timestamp
        track = tracks[event.track_uuid]
        key = (processes[track.parent_uuid].pid if track.parent_uuid else None, track.name)
        stack = opened.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            assert not stack or at >= stack[-1][1], (key, event)
            stack.append((event.name, at, {a.name: a for a in event.debug_annotations}))
        elif event.type == event.TYPE_SLICE_END:
            name, begin, notes = stack.pop()
            assert at >= begin
            slices.setdefault(key, []).append((name, begin, at, notes))
        else:
            values.setdefault(key, []).append((at, event.double_counter_value))
    assert not any(opened.values()), "every slice ends"
    return processes, slices, values, trace


def test_perfetto(jobs, tmp_path):
    target = ",".join(map(str, jobs.four))
    path = export(jobs, target, str(tmp_path / "run.pftrace"), "--since", "1h")
    processes, slices, values, trace = read(path)
    assert {p.pid: p.process_name for p in processes.values()} == {
        pid: "rank %d" % rank for rank, pid in enumerate(jobs.four)}
    rank2 = jobs.four[2]
    said = jobs.node.rows("SELECT step, step_ms, epoch_us(timestamp) AS t, loss FROM "
                          "python.training_logs WHERE step_ms IS NOT NULL ORDER BY t", target=rank2)
    shown = slices[rank2, "steps"]
    assert [name for name, *_ in shown] == ["step %d" % row["step"] for row in said]
    for (_, begin, end, notes), row in zip(shown, said):
        assert end - begin == pytest.approx(row["step_ms"] * 1e6, abs=2000)
        assert end == pytest.approx(row["t"] * 1000, abs=2000)
        assert notes["step"].int_value == row["step"]
    counted = jobs.node.rows("SELECT count(*) AS n FROM python.torch_trace", target=rank2)[0]["n"]
    found = [s for (pid, name), many in slices.items() if pid == rank2 and
             name.startswith("modules") for s in many]
    assert len(found) == counted > 100
    # A module lies inside of the one around it.
    outer = [s for s in found if s[0] == "DistributedDataParallel"][0]
    inner = [s for s in found if s[0] == "module.blocks.0.mlp" and outer[1] <= s[1] < outer[2]]
    assert inner and inner[0][2] <= outer[2]
    comm = jobs.node.rows("SELECT count(*) AS n, sum(bytes) AS bytes FROM comm_metrics WHERE "
                          "latency_ms IS NOT NULL", target=rank2)[0]
    made = slices[rank2, "collectives"]
    assert len(made) == comm["n"]
    assert sum(s[3]["bytes"].int_value for s in made) == comm["bytes"]
    last = jobs.node.rows("SELECT arg_max(rss_mb, timestamp) AS mb, count(*) AS n FROM "
                          "python.memory", target=rank2)[0]
    assert values[rank2, "resident memory"][-1][1] == pytest.approx(last["mb"], rel=0.05)
    loss = jobs.node.rows("SELECT loss FROM python.training_logs WHERE loss IS NOT NULL ORDER BY "
                          "timestamp", target=rank2)
    assert [v for _, v in values[rank2, "loss"]] == [row["loss"] for row in loss]
    assert any(packet.HasField("perf_sample") for packet in trace.packet)  # what was sampled


def test_chrome(jobs, tmp_path):
    path = export(jobs, jobs.one, str(tmp_path / "run.json"), "--since", "1h")
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    steps = [e for e in events if e.get("cat") == "steps"]
    said = jobs.node.rows("SELECT count(*) AS n, sum(step_ms) AS ms FROM python.training_logs "
                          "WHERE step_ms IS NOT NULL", target=jobs.one)[0]
    assert len(steps) == said["n"]
    assert sum(e["dur"] for e in steps) == pytest.approx(said["ms"] * 1000, rel=0.01)
    assert {"modules", "python"} <= {e.get("cat") for e in events}
    assert {"resident memory", "CPU", "loss"} <= {e["name"] for e in events if e["ph"] == "C"}
    # Samples and steps count from the same moment.
    frames = [e for e in events if e.get("cat") == "python"]
    assert min(e["ts"] for e in frames) < max(e["ts"] + e["dur"] for e in steps)
    assert max(e["ts"] + e["dur"] for e in frames) > min(e["ts"] for e in steps)


def test_a_dead_process_and_a_copied_folder(jobs, tmp_path):
    _, slices, _, _ = read(export(jobs, jobs.dead, str(tmp_path / "dead.pftrace")))
    assert len(slices[jobs.dead, "steps"]) >= 30
    # What a machine left behind: a copy of its folder of rings.
    copy = tmp_path / "copy"
    copy.mkdir()
    rings = "/dev/shm/probing-%d" % os.getuid()
    for name in os.listdir(rings):
        if name.startswith("%d-" % jobs.one):
            shutil.copytree(os.path.join(rings, name), str(copy / name),
                            ignore=shutil.ignore_patterns("control"))
    path = str(tmp_path / "copied.pftrace")
    answer = jobs.node("--store", str(copy), "export", "--trace", path)
    assert answer.returncode == 0, answer
    assert len(read(path)[1][jobs.one, "steps"]) >= 10


def test_what_does_not_go_together(jobs, tmp_path):
    path = str(tmp_path / "there.pftrace")
    open(path, "w").close()
    for words, says, code in (
            (("--trace", path), "is there already; --force", 2),
            (("--trace", "x", "-o", "y"), "--trace names its own file", 2),
            (("--trace", "x", "SELECT 1"), "--trace names its own file", 2),
            (("--trace", "x", "--since", "2001-01-01", "--until", "2001-01-02"),
             "nothing is recorded of that window", 1)):
        answer = jobs.node(jobs.one, "export", *words, cwd=str(tmp_path))
        assert answer.returncode == code and says in answer.stderr, (words, answer)
        assert not os.path.exists(str(tmp_path / "x"))
