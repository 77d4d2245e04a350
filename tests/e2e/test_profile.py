"""torch's profiler from outside: a table, a trace file, and nothing left behind."""
import glob
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile

import pytest

import harness
from agents import eventually
from injecting import has_agent
from nodes import Node

pytestmark = [pytest.mark.skipif(not has_agent(), reason="built without the agent"),
              pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")]


class Training(harness.Target):
    """examples/leak.py: a small model, a step every few milliseconds."""

    def __init__(self):
        super().__init__([sys.executable, os.path.join(harness.ROOT, "examples", "leak.py"),
                          "--device", "cpu", "--sleep", "0.005"])


@pytest.fixture(scope="module")
def training():
    made = Training()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = Node(tmp_path_factory.mktemp("profile"))
    yield made
    made.stop()


def left_behind(pid):
    """Names in __main__, hooks of optimizers, a profiler still at work: each thread has its own."""
    code = ("import torch.optim.optimizer as o; print('STEPS' in globals(), 'run' in globals(), "
            "len(o._global_optimizer_post_hooks), torch.autograd._profiler_enabled())")
    return harness.probing(pid, "eval", "--main", code).stdout


def complaints(target):
    """What it has written to its standard error."""
    fd = target.process.stderr.fileno()
    os.set_blocking(fd, False)
    try:
        return os.read(fd, 1 << 16).decode()
    except BlockingIOError:
        return ""
    finally:
        os.set_blocking(fd, True)


def test_operations_and_trace(training, node, tmp_path):
    harness.probing(training.pid, "inject")
    before = left_behind(training.pid)
    trace = str(tmp_path / "trace.json")
    answer = node(training.pid, "profile", "-n", 3, "-o", trace, "--rows", 100)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[0].split()[:3] == ["operation", "shapes", "calls"]
    calls = {line.split()[0]: int(line.split()[1]) for line in lines[1:-1]
             if line.startswith("aten::")}
    assert calls["aten::addmm"] == 3 * 3  # three layers, three steps
    assert lines[-1] == "trace: %s (open it in https://ui.perfetto.dev)" % trace
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    assert sum(event.get("name") == "aten::addmm" for event in events) == 9
    rows = node.rows("SELECT * FROM python.profile_ops", training.pid)
    ops = {row["op"]: row for row in rows}
    assert ops["aten::addmm"]["calls"] == 9 and ops["aten::addmm"]["steps"] == 3
    assert ops["aten::addmm"]["self_cpu_ms"] > 0
    assert left_behind(training.pid) == before
    assert "Warning" not in complaints(training)


def test_shapes(training, node, tmp_path):
    answer = node(training.pid, "profile", "-n", 1, "--shapes", "-o", str(tmp_path / "t.json"),
                  "--rows", 100)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"aten::addmm +\[\[512\], \[64, 256\], \[256, 512\]", answer.stdout)


def traces():
    """Trace files that targets write for the tool to fetch."""
    return set(glob.glob(os.path.join(tempfile.gettempdir(), "probing-trace-*")))


def is_profiled(pid):
    return left_behind(pid).split()[-1] == "True"


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_broken_off(training, node, tmp_path, sign):
    """The profiler stops at the end of the step, its hook is gone, and so are its files."""
    before, files = left_behind(training.pid), traces()
    tool = node.start(training.pid, "profile", "-n", 1000, "-o", str(tmp_path / "t.json"))
    eventually(lambda: is_profiled(training.pid))
    tool.send_signal(sign)
    out, err = tool.communicate(timeout=10)
    if sign == signal.SIGINT:
        assert (tool.returncode, out, err) == (130, "", "")
    else:  # nobody waits for it
        eventually(lambda: left_behind(training.pid) == before)
    assert left_behind(training.pid) == before
    assert traces() == files and os.listdir(str(tmp_path)) == []
    answer = node(training.pid, "profile", "-n", 1, "-o", str(tmp_path / "t.json"))
    assert answer.returncode == 0, answer.stderr


def test_no_torch(start, any_py, node):
    target = start(harness.Script, any_py, "simple.py")
    answer = node(target.pid, "profile")
    assert (answer.returncode, answer.stderr.splitlines()[-1]) == (
        1, "probing: %d: torch is not loaded in it" % target.pid)


def test_no_steps(training, node):
    """Other optimizers' steps do not count, and without any it gives up in time."""
    harness.probing(training.pid, "eval", "import threading; "
                    "time.sleep = lambda seconds: threading.Event().wait(60)")
    answer = node(training.pid, "profile", "--timeout", "1")
    assert answer.returncode == 1
    assert re.search(r"only \d of 5 steps in 1 s", answer.stderr)
