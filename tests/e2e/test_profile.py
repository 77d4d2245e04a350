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
import patience
import strangers
from nodes import Node

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")


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
    calls = {line.split()[0]: int(line.split()[1]) for line in lines[1:-2]
             if line.startswith("aten::")}
    assert calls["aten::addmm"] == 3 * 3  # three layers, three steps
    assert lines[-1] == "trace: %s (open it in https://ui.perfetto.dev)" % trace
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    assert sum(event.get("name") == "aten::addmm" for event in events) == 9
    assert re.fullmatch(r"3 steps in \d+\.\d\d s, \d+ events; the job waited \d+\.\d\d s "
                        r"\(start [\d.]+, stop [\d.]+, write [\d.]+\)", lines[-2])
    assert os.stat(trace).st_mode & 0o777 == 0o600
    rows = node.rows("SELECT * FROM python.profile_ops", training.pid)
    ops = {row["op"]: row for row in rows}
    assert ops["aten::addmm"]["calls"] == 9 and ops["aten::addmm"]["steps"] == 3
    assert ops["aten::addmm"]["self_cpu_ms"] > 0
    assert left_behind(training.pid) == before
    assert "Warning" not in complaints(training)


def test_processes_of_a_job_that_have_no_steps_in_common(start, node, tmp_path):
    """Each begins with its own next step, which is said."""
    script = tmp_path / "twins.py"
    with open(os.path.join(harness.ROOT, "examples", "leak.py")) as file:
        script.write_text(file.read())
    two = [start(harness.Target, [sys.executable, str(script), "--device", "cpu", "--sleep",
                                  "0.005"]) for _ in range(2)]
    for one in two:
        assert node(one.pid, "inject").returncode == 0
        patience.until(lambda: node.rows("SELECT 1 FROM python.training_logs LIMIT 1", one.pid))
    answer = node("job:twins.py", "profile", "-n", 2, "-o", str(tmp_path / "run.trace.json"))
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.count("cannot be matched") == 1
    assert answer.stdout.count("2 steps in ") == 2 and "by its own count" not in answer.stdout
    for one in two:
        assert os.path.exists(str(tmp_path / ("run.%d.trace.json" % one.pid)))


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
    patience.until(lambda: is_profiled(training.pid))
    tool.send_signal(sign)
    out, err = tool.communicate(timeout=60)
    if sign == signal.SIGINT:
        assert (tool.returncode, out, err) == (130, "", "")
    else:  # nobody waits for it
        patience.until(lambda: left_behind(training.pid) == before)
    assert left_behind(training.pid) == before
    assert traces() == files and os.listdir(str(tmp_path)) == []
    answer = node(training.pid, "profile", "-n", 1, "-o", str(tmp_path / "t.json"))
    assert answer.returncode == 0, answer.stderr


def test_no_torch(start, any_py, node):
    target = start(harness.Script, any_py, "simple.py")
    answer = node(target.pid, "profile")
    assert (answer.returncode, answer.stderr.splitlines()[-1]) == (
        1, "probing: %d: torch is not loaded in it" % target.pid)


def test_no_steps(start, node):
    """Without any it gives up in time."""
    target = start(Training)
    harness.probing(target.pid, "eval", "import threading; "
                    "time.sleep = lambda seconds: threading.Event().wait(60)")
    patience.until(lambda: "Event.wait" in [frame[0] for frame in harness.stack_of(target.pid)])
    answer = node(target.pid, "profile", "--timeout", "1")
    assert (answer.returncode, answer.stderr) == (
        1, "probing: %d: no training step and no call of a model in 1 s\n" % target.pid)


def test_profiled_steps_are_marked(training, node, tmp_path):
    """A stall that the profiler caused is told apart from the job's own."""
    count = "SELECT count(*) AS n FROM python.training_logs WHERE profiled"
    before = node.rows(count, training.pid)[0]["n"]
    assert node(training.pid, "profile", "-n", 4, "-o", tmp_path / "t.json").returncode == 0
    patience.until(lambda: node.rows(count, training.pid)[0]["n"] >= before + 4)
    last = "SELECT profiled FROM python.training_logs ORDER BY step DESC LIMIT 1"
    patience.until(lambda: node.rows(last, training.pid)[0]["profiled"] is False)


def test_a_file_that_exists_stays(training, node, tmp_path):
    path = tmp_path / "t.json"
    path.write_text("mine")
    answer = node(training.pid, "profile", "-n", 1, "-o", path)
    assert (answer.returncode, answer.stderr) == (
        1, "probing: %s: exists already; remove it, or take another name\n" % path)
    assert path.read_text() == "mine"


def test_default_names_do_not_collide(training, node, tmp_path):
    for name in ("probing-%d.trace.json", "probing-%d.2.trace.json"):
        answer = node(training.pid, "profile", "-n", 1, cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.splitlines()[-1].split()[1] == name % training.pid
        assert (tmp_path / (name % training.pid)).exists()


TINY = """
import os, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
print("ready", os.getpid(), flush=True)
while True:  # an episode of many calls, then one step
    total = 0
    for _ in range({calls}):
        total = total + model(torch.randn(1, 4)).sum()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""

SERVER = """
import os, time, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
print("ready", os.getpid(), flush=True)
with torch.no_grad():
    while True:
        model(torch.randn(1, 4))
        time.sleep(0.01)
"""


ENDING = """
import os, sys, threading, time, torch
model = torch.nn.Linear(4, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
def train():
    while not os.path.exists({flag!r}):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.01)
print("ready", os.getpid(), flush=True)
if {where!r} == "main":
    train()
else:
    thread = threading.Thread(target=train, daemon={where!r} == "daemon")
    thread.start()
    while not os.path.exists({flag!r}):
        time.sleep(0.01)
print("done", flush=True)
"""


class Program(harness.Target):
    def __init__(self, text):
        super().__init__([sys.executable, "-c", text])


def test_many_tiny_calls_stop_it_early(start, node, tmp_path):
    """Three steps of 20,000 calls each would be 600,000 events and more."""
    target = start(Program, TINY.format(calls=20000))
    answer = node(target.pid, "profile", "-n", 3, "--max-events", 50000, "-o", tmp_path / "t.json",
                  timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"probing: stopped after \d of 3 steps: it would have more than 50000 events",
                     answer.stderr)
    events = int(re.search(r"(\d+) events", answer.stdout).group(1))
    assert 10000 < events <= 50000
    assert re.search(r"^aten::addmm +\d+", answer.stdout, re.M)
    assert left_behind(target.pid).split()[-2:] == ["0", "False"]


@pytest.mark.parametrize("where, how", [
    ("main", "profiled"), ("thread", "killed"), ("daemon", "ejected")] + [
        pytest.param(*both, marks=pytest.mark.long) for both in (
            ("main", "killed"), ("main", "ejected"), ("thread", "profiled"),
            ("thread", "ejected"), ("daemon", "profiled"), ("daemon", "killed"))])
def test_a_job_that_ends_meanwhile(start, node, tmp_path, where, how):
    """torch crashes at the end of a process whose profiler still runs."""
    flag = str(tmp_path / "flag")
    target = start(Program, ENDING.format(flag=flag, where=where))
    tool = node.start(target.pid, "profile", "-n", 1000, "-o", str(tmp_path / "t.json"))
    count = "SELECT count(*) AS n FROM python.training_logs WHERE profiled"
    patience.until(lambda: node.rows(count, target.pid)[0]["n"] > 0)
    if how == "killed":
        tool.kill()
    elif how == "ejected":
        assert harness.probing(target.pid, "eject").returncode == 0
    open(flag, "w").close()
    out, err = target.process.communicate(timeout=60)
    tool.communicate(timeout=60)
    assert (target.process.returncode, out) == (0, b"done\n"), err


def test_a_thread_that_ends_meanwhile(start, node, tmp_path):
    """The process goes on: what there is by then is the answer."""
    flag = str(tmp_path / "flag")
    text = ENDING.format(flag=flag, where="thread").replace('print("done"',
                                                            'time.sleep(60)\nprint("done"')
    target = start(Program, text)
    tool = node.start(target.pid, "profile", "-n", 1000, "-o", str(tmp_path / "t.json"))
    count = "SELECT count(*) AS n FROM python.training_logs WHERE profiled"
    patience.until(lambda: node.rows(count, target.pid)[0]["n"] > 0)
    open(flag, "w").close()
    out, err = tool.communicate(timeout=60)
    assert tool.returncode == 0, err
    assert re.search(r"stopped after \d+ of 1000 steps: its thread ended", err)
    assert re.search(r"^aten::addmm +\d+", out, re.M)


def test_inference(start, node, tmp_path):
    """Nothing is trained: calls of the model are what counts."""
    target = start(Program, SERVER)
    trace = str(tmp_path / "t.json")
    answer = node(target.pid, "profile", "-n", 4, "-o", trace)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"^4 calls in ", answer.stdout, re.M)
    assert re.search(r"^aten::addmm +8 ", answer.stdout, re.M)  # two layers


def test_times_are_torchs_own(start, node, tmp_path):
    """Added up from the trace, they are what torch says of the same events."""
    target = start(Program, SERVER)
    trace = str(tmp_path / "t.json")
    answer = node(target.pid, "profile", "-n", 20, "-o", trace, "--rows", 100)
    assert answer.returncode == 0, answer.stderr
    with open(trace) as file:
        events = [e for e in json.load(file)["traceEvents"]
                  if e.get("ph") == "X" and e.get("cat") == "cpu_op"]
    rows = {r["op"]: r for r in node.rows("SELECT * FROM python.profile_ops", target.pid)}
    for name in {e["name"] for e in events}:
        own = [e for e in events if e["name"] == name]
        assert rows[name]["calls"] == len(own)
        assert rows[name]["cpu_ms"] == pytest.approx(sum(e["dur"] for e in own) / 1000, abs=1e-3)
    whole = sum(e["dur"] for e in events
                if not any(o is not e and o["tid"] == e["tid"] and o["ts"] <= e["ts"] and
                           o["ts"] + o["dur"] >= e["ts"] + e["dur"] for o in events)) / 1000
    assert sum(r["self_cpu_ms"] for r in rows.values()) == pytest.approx(whole, rel=1e-3)


HOSTILE = """
import json, os, sys, time, types
sys.modules["torch"] = types.ModuleType("torch")
dumps = json.dumps
json.dumps = lambda value: dumps({{"unit": "steps", "count": 1, "rows": [], "bytes": 10,
                                   "steps": 1, "trace": "{secret}"}})
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
"""


class Stranger(harness.Target):
    """A program of another user."""

    def __init__(self, text):
        super().__init__(["setpriv", "--reuid", "61999", "--regid", "61999", "--clear-groups",
                          strangers.python(), "-c", text], cwd="/")


@strangers.needs_root
def test_no_path_of_a_target_is_opened(start, node, tmp_path):
    """The answer of a process of another user names a file of root's."""
    secret = tmp_path / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    target = start(Stranger, HOSTILE.format(secret=secret))
    trace = tmp_path / "t.json"
    node(target.pid, "profile", "-n", 1, "--timeout", 1, "-o", trace)
    assert secret.read_text() == "root's" and secret.stat().st_mode & 0o777 == 0o600
    assert not trace.exists() or "root's" not in trace.read_text()
