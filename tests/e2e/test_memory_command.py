"""probing PID memory: now, peak and trend, for living, dead and unknown processes."""
import json
import os
import re
import time

import pytest

import harness
import interpreters
import nodes

GROWER = """
import os, time
print("ready", os.getpid(), flush=True)
kept = []
while True:
    kept.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.05)
"""


@pytest.fixture
def node(tmp_path):
    made = nodes.Node(tmp_path, PROBING_SAMPLE_INTERVAL="0.1")
    yield made
    made.stop()


@pytest.fixture
def grower(tmp_path, start):
    script = tmp_path / "grower.py"
    script.write_text(GROWER)
    return start(harness.Target, [interpreters.newest().command, str(script)])


def resident_mb(pid):
    with open("/proc/%d/status" % pid) as file:
        return [int(line.split()[1]) for line in file if line.startswith("VmRSS")][0] / 1024


def ask(node, pid, *words):
    answer = node(pid, "memory", "--json", *words)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def with_history(node, pid, seconds, points):
    """The answer once its window is that long."""
    end = time.monotonic() + 30
    while True:
        found = ask(node, pid)
        if found["window_s"] and found["window_s"] >= seconds and \
                sum(v is not None for v in found["kinds"][0]["points_mb"]) >= points:
            return found
        assert time.monotonic() < end, found
        time.sleep(0.2)


def test_growing_process(node, grower):
    found = with_history(node, grower.pid, 6, 10)
    kind = found["kinds"][0]
    assert (found["pid"], found["alive"], kind["kind"]) == (grower.pid, True, "resident")
    assert found["command"].endswith("grower.py")
    assert abs(kind["now_mb"] - resident_mb(grower.pid)) < 20
    assert kind["peak_mb"] >= kind["now_mb"] - 1
    # A megabyte twenty times a second, less what a busy machine does not give it.
    assert 100 < kind["mb_per_min"] < 1500 and 0 <= kind["mb_per_min_error"] < 200
    points = [value for value in kind["points_mb"] if value is not None]
    assert points == sorted(points) and len(kind["points_mb"]) == 20

    text = node(grower.pid, "mem").stdout
    head, line = text.splitlines()[:2]
    assert re.match(r"process %d  grower\.py +now +peak   last \d+ s$" % grower.pid, head), text
    assert re.match(r"resident +\d+(\.\d+)? MB +\d+(\.\d+)? MB   [▁▂▃▄▅▆▇█ ]{20}  "
                    r"\+\d+ ±\d+ MB/min$", line), text
    assert "\x1b" not in text

    # The dead are shown as they were last seen.
    grower.stop()
    time.sleep(0.3)
    dead = ask(node, grower.pid)
    assert (dead["pid"], dead["alive"], dead["command"]) == (grower.pid, False, None)
    # Its last row may be an interval old, and it grew by up to 20 MB a second.
    assert dead["kinds"][0]["peak_mb"] >= max(points) - 1
    assert ", until 20" in node(grower.pid, "memory").stdout


SWINGER = """
import os, random, time
print("ready", os.getpid(), flush=True)
while True:
    held = bytearray(b"x") * random.randrange(1 << 24)
    time.sleep(0.02)
"""


def test_no_trend_where_memory_goes_up_and_down(node, tmp_path, start):
    script = tmp_path / "swinger.py"
    script.write_text(SWINGER)
    target = start(harness.Target, [interpreters.newest().command, str(script)])
    with_history(node, target.pid, 6, 10)
    # By chance it may look like one for a while, but not most of the time.
    trends = []
    for _ in range(12):
        trends.append(ask(node, target.pid)["kinds"][0]["mb_per_min"])
        time.sleep(0.3)
    assert trends.count(None) >= 8, trends
    shown = ["MB/min" in node(target.pid, "memory").stdout for _ in range(4)]
    assert shown.count(False) >= 2, shown


SERVER = """
import os, time
print("ready", os.getpid(), flush=True)
held = []
for i in range(60):
    held.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.02)
while True:
    time.sleep(0.01)
"""


def test_what_a_program_makes_when_it_starts_is_no_trend(node, tmp_path, start):
    """60 MB in a second, and flat from then on."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    target = start(harness.Target, [interpreters.newest().command, str(script)])
    ask(node, target.pid)
    found = with_history(node, target.pid, 6, 10)
    points = [value for value in found["kinds"][0]["points_mb"] if value is not None]
    assert points[-1] > points[0] + 10 and points[-1] == points[-5], points
    assert found["kinds"][0]["mb_per_min"] is None, found
    assert "MB/min" not in node(target.pid, "memory").stdout


def test_kinds_from_the_probes(node, start, any_py):
    target = start(harness.Script, any_py, "simple.py")
    assert node(target.pid, "inject", env={"PROBING_MEMORY_INTERVAL": "0.1"}).returncode == 0
    end = time.monotonic() + 30
    while not node.rows("SELECT * FROM python.memory LIMIT 1", target.pid):
        assert time.monotonic() < end, "no rows of python.memory"
        time.sleep(0.1)
    told = node.rows("SELECT max(rss_mb) AS \"resident\", max(python_mb) AS \"python objects\", "
                     "max(heap_mb) AS \"arrays and tensors\" FROM python.memory", target.pid)[0]
    kinds = {kind["kind"]: kind for kind in ask(node, target.pid)["kinds"]}
    assert list(kinds) == [name for name in told if told[name] is not None]
    for kind in kinds.values():
        assert 0 <= kind["now_mb"] <= kind["peak_mb"] < 1000, kind


HOLDER = """
import os, sys, time
floats = [float(i) for i in range(1000000)]
arrays = [bytearray(b"x") * (1 << 20) for i in range(50)]
print("ready", os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.few
def test_small_objects_and_large_ones(node, start, py, tmp_path):
    """24 bytes a float are Python's own, a list of eight bytes each and the arrays are malloc's."""
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    target = start(harness.Target, [py.command, str(script)])
    assert node(target.pid, "inject", "-D", "memory.interval=0.1").returncode == 0
    end = time.monotonic() + 30
    while True:
        row, = node.rows("SELECT max(python_mb) AS small, max(heap_mb) AS large FROM "
                         "python.memory", target.pid)
        if row["large"] is not None and (row["small"] is not None or py.free_threaded):
            break
        assert time.monotonic() < end, row
        time.sleep(0.1)
    if py.free_threaded:  # all of its objects are mimalloc's, which does not say how much it has
        assert row["small"] is None
        return
    assert 24e6 / (1 << 20) <= row["small"] <= 60, row
    assert 50 + 8e6 / (1 << 20) <= row["large"] <= 100, row


def test_without_an_engine_there_is_still_the_present(tmp_path, start, any_py):
    target = start(harness.Script, any_py, "simple.py")
    blocked = tmp_path / "file"
    blocked.write_text("")
    answer = harness.probing(target.pid, "memory", env={"PROBING_HOME": str(blocked)})
    assert answer.returncode == 0, answer.stderr
    assert re.match(r"process %d  simple\.py +now +peak\n"
                    r"resident +\d+(\.\d+)? MB +\d+(\.\d+)? MB\n$" % target.pid, answer.stdout)
    assert answer.stderr.startswith("probing: no history: ")


def test_refusals(node):
    answer = node("memory")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("probing: memory needs a target: probing <TARGET> memory\n")
    answer = node(2 ** 22 - 7, "memory")
    assert answer.returncode == 4 and answer.stdout == "", answer
    assert str(2 ** 22 - 7) in answer.stderr and len(answer.stderr.splitlines()) == 1


def test_a_terminal_gets_colours(node, start, any_py):
    import pty
    import subprocess
    target = start(harness.Script, any_py, "simple.py")
    ask(node, target.pid)
    ours, theirs = pty.openpty()
    done = subprocess.run([harness.BIN, str(target.pid), "memory"], stdin=subprocess.DEVNULL,
                          stdout=theirs, stderr=subprocess.DEVNULL, timeout=30,
                          env=dict(harness.ENV, TERM="xterm", **node.env), check=False)
    os.close(theirs)
    text = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0 and "\x1b[" in text and "resident" in text


@pytest.mark.parametrize("options, of", [(["-t", "dict"], "heap"), (["-w", "1"], "heap"),
                                         (["--heap", "--count", "2"], "watch"),
                                         (["--heap", "-n"], "sites"), (["-o", "x.html"], "sites"),
                                         (["--limit", "3"], "heap"), (["-d", "1"], "sites")])
def test_options_that_say_nothing_alone(options, of):
    answer = harness.probing(os.getpid(), "memory", *options)
    assert answer.returncode == 2 and "goes with --" + of in answer.stderr, answer
