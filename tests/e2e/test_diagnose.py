"""diagnose: a share of the suite of faults (all: tests/bench/faults.py), and how it speaks."""
import json
import os
import re
import subprocess
import sys

import pytest

import marks
import patience
from nodes import node  # noqa: F401: a fixture

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "bench"))
import faults  # noqa: E402

FAST = ["hang/lock_cycle", "hang/queue_empty", "hang/gil_held", "hang/mp_worker_stuck",
        "ranks/asleep", "values/nan", "healthy/busy", "healthy/aserver"]
SLOWER = ["hang/acquire_cycle", "hang/await_never", "hang/loop_walk", "hang/mp_pipe_recv",
          "ranks/both_recv", "healthy/idle_pool", "healthy/tail_file"]


@pytest.fixture
def stuck(request):
    """A program of the suite that has come to its fault."""
    fault = [f for f in faults.names() if f.name == request.param][0]
    p, log = faults.start(fault)
    yield fault, p
    faults.stop(p)
    log.close()


@pytest.mark.parametrize("stuck", FAST + marks.rarely(*SLOWER), indirect=True)
def test_verdict(node, stuck):
    fault, p = stuck
    target = "job:" + os.path.basename(fault.path) if fault.ranks else p.pid
    r = node(target, "diagnose", "-f", "json")
    assert r.returncode in (0, 10), r.stderr
    answer = json.loads(r.stdout)
    assert faults.judge(fault, answer) is None
    assert (r.returncode == 10) == (not answer["healthy"])
    for v in answer["verdicts"]:
        assert v["confidence"] in ("established", "supported", "possible")
        assert set(v) == {"kind", "class", "confidence", "ranks", "host", "pid", "tid", "file",
                          "line", "func", "since", "what", "why", "next", "victims", "evidence"}
        assert v["evidence"][0]["rows"] and "python.waits" in v["evidence"][0]["sql"]


@pytest.mark.parametrize("stuck", ["hang/self_lock"], indirect=True)
def test_words_and_graph(node, stuck):
    _, p = stuck
    r = node(p.pid, "hang", "-v")
    assert r.returncode == 10
    assert "self deadlock" in r.stdout and "inner" in r.stdout and "self_lock.py:9" in r.stdout
    assert "FROM python.waits" in r.stdout
    assert "circle" in node(p.pid, "diagnose", "--graph", "text").stdout
    assert "->" in node(p.pid, "diagnose", "--graph", "dot").stdout
    # Other questions have other answers.
    for other in ("slow", "leak"):
        r = node(p.pid, other, "--look", 1)
        assert r.returncode == 0
        assert re.match(r"healthy: 1 process, \d+ Python threads?, ", r.stdout)


SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "targets",
                      "crashes_soon.py")
LINES = open(SCRIPT).read().split("\n")


def crash(node, *options, word="go"):
    """Runs the script until its end, with probes that have written rows; returns its pid."""
    p = subprocess.Popen([sys.executable, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True, env=dict(os.environ, **node.env))
    p.stdout.readline()
    assert node(p.pid, "inject", *options).returncode == 0
    patience.once(lambda: node.rows("SELECT 1 AS x FROM python.memory", p.pid), bool)
    p.communicate(word + "\n")
    return p.pid


def test_crash(node):
    """A process that has crashed is no healthy one: the report's cause and own line."""
    pid = crash(node, "-c")
    for target in (pid, "job:crashes_soon.py"):
        r = node(target, "diagnose", "-f", "json")
        assert r.returncode == 10, r.stderr
        v = json.loads(r.stdout)["verdicts"][0]
        assert (v["kind"], v["class"], v["pid"], v["confidence"]) == (
            "crash", "SIGSEGV", pid, "established")
        assert (v["file"], v["line"], v["func"]) == (
            SCRIPT, LINES.index("    return ctypes.string_at(0)") + 1, "load")
        assert v["evidence"][0]["rows"][0]["pid"] == pid
    # Another question: the process is gone, which is not the same as healthy.
    r = node(pid, "hang")
    assert r.returncode == 4 and "ended: SIGSEGV" in r.stderr


def test_killed(node):
    """Without a report the exit status speaks, and says nothing of who did it."""
    node.rows("SELECT 1")  # a node sees how processes end
    pid = crash(node, word="kill")
    patience.once(lambda: node("list", "--dead").stdout,
                  lambda out: re.search(r"^ *%d .* SIGKILL " % pid, out, re.M))
    r = node(pid, "diagnose")
    assert r.returncode == 10, r.stderr
    assert "ended by SIGKILL" in r.stdout and "memory" not in r.stdout.split("next:")[0]
    assert node(pid, "leak", "--look", 1).returncode == 4


def test_watch_says_how_it_ended(node):
    """Also of a process without probes, where the kernel tells."""
    p = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); "
                          "time.sleep(1000)"], stdout=subprocess.PIPE)
    p.stdout.readline()
    watch = node.start(p.pid, "diagnose", "-w")
    patience.once(lambda: os.listdir("/proc/%d/fd" % watch.pid),
                  lambda fds: any(is_pidfd(watch.pid, fd) for fd in fds))
    p.kill()
    out, err = watch.communicate(timeout=60)
    p.wait()
    if "has ended\n" in err:  # a kernel before 6.15
        return
    assert watch.returncode == 10, err
    assert "ended by SIGKILL" in out and "who sent it is not known" in out


def is_pidfd(pid, fd):
    try:
        return "pidfd" in os.readlink("/proc/%d/fd/%s" % (pid, fd))
    except OSError:
        return False


VALUES = {"explodes": "loss explodes", "rate": "learning rate is zero",
          "gradients": "gradients are zero", "well": None}


@pytest.mark.parametrize("way", ["explodes", "well"] + marks.rarely("rate", "gradients"))
def test_values(node, way):
    """Of a probed training: what its steps say."""
    pytest.importorskip("torch")
    script = os.path.join(os.path.dirname(SCRIPT), "bad_values.py")
    p = subprocess.Popen([sys.executable, script, way], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        p.stdout.readline()
        assert node(p.pid, "inject").returncode == 0
        p.stdin.write("go\n")
        p.stdin.flush()
        steps = "SELECT count(*) AS n FROM python.training_logs"
        patience.once(lambda: node.rows(steps, p.pid), lambda rows: rows and rows[0]["n"] > 120)
        verdicts = json.loads(node(p.pid, "diagnose", "-f", "json").stdout)["verdicts"]
        assert [(v["kind"], v["class"]) for v in verdicts] == (
            [("values", VALUES[way])] if VALUES[way] else [])
    finally:
        p.kill()
        p.communicate()
