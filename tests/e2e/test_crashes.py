"""Crash reports: the process ends as it would have, and what it did is known afterwards."""
import os
import shutil
import subprocess

import pytest

import crashing
import harness
import patience
from nodes import Node

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
QUICK = 1.5  # seconds; at most 0.5 of them are ours, the rest is a loaded machine


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return crashing.build(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def lines_of(err):
    """stderr without what differs: addresses, and faulthandler's list of modules, where ours is."""
    return [line for line in err.strip().split("\n")
            if line and "0x" not in line and not line.startswith("Extension modules:")]


def crashed(report):
    return [t for t in report["process"]["threads"] if t["tid"] == report["tid"]][0]


@pytest.mark.parametrize("way", sorted(crashing.WAYS))
@harness.steady
def test_ends_as_without(any_py, library, home, way):
    """Exit status and output are those of a run without us; the report has cause and line."""
    bare = crashing.Crash(any_py.command, library, way, home, armed=False)
    run = crashing.Crash(any_py.command, library, way, home)
    assert bare.code == run.code == crashing.WAYS[way]
    assert lines_of(bare.err) == lines_of(run.err) and bare.out.split()[2:] == run.out.split()[2:]
    assert run.seconds < bare.seconds + QUICK
    report = run.report()
    assert report["kind"] == "signal"
    # faulthandler sends the signal again, so that is where it comes from then.
    line = "kill" if way == "kill" else "call"
    user = crashed(report) if way != "in_thread" else harness.main_thread(report["process"])
    found = [(f["file"], f["lineno"]) for f in user["frames"] if f["frame_type"] == "python"]
    assert found[0] == (crashing.SCRIPT, crashing.LINES[line]), (found[:3], report["cause"])
    if way in ("segv", "bus", "fpe", "ill", "malloc", "overflow", "in_thread"):
        assert any("crash_" in f["func"] for f in crashed(report)["frames"]), report["cause"]
    assert report["stack_overflow"] == (way == "overflow")


@pytest.mark.parametrize("turn", range(5))
def test_exception_in_the_first_line(py, home, tmp_path, turn):
    """The agent is ready before the program is."""
    script = tmp_path / "early.py"
    script.write_text("1 / 0\n")
    env = crashing.with_reports(home)
    run = subprocess.run([py.command, str(script)], env=env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60)
    assert run.returncode == 1 and b"ZeroDivisionError" in run.stderr
    answer = harness.probing("crashes", "-f", "json", env={"PROBING_HOME": str(home)})
    assert str(script) in answer.stdout, answer.stdout


@harness.steady
def test_shown(any_py, library, home):
    run = crashing.Crash(any_py.command, library, "segv", home, threads=3)
    answer = harness.probing("crashes", run.pid, env={"PROBING_HOME": str(home)})
    lines = answer.stdout.split("\n")
    assert lines[0] == "SIGSEGV: nothing is mapped at 0x10"
    assert "call crashing.py:%d" % crashing.LINES["call"] in lines[1]
    assert "crash_segv" in answer.stdout and "more threads: -a" in answer.stdout
    assert "batch = [0, 1]" in answer.stdout  # of deep(0)
    every = harness.probing("crashes", run.pid, "-a", env={"PROBING_HOME": str(home)}).stdout
    assert all("idle-%d" % i in every for i in range(3))
    listed = harness.probing("crashes", env={"PROBING_HOME": str(home)}).stdout
    assert [line for line in listed.split("\n") if "-%d " % run.pid in line]
    nobody = harness.probing("crashes", "999999", env={"PROBING_HOME": str(home)})
    assert nobody.returncode == 4 and "no crash '999999'" in nobody.stderr


@pytest.mark.parametrize("way", ["segv", "overflow", "python_thread", "abort"])
@harness.steady
def test_injected(any_py, library, home, way):
    """The same in a process that was running already; a thread that starts later has a stack for
    its handlers, too."""
    run = crashing.Crash(any_py.command, library, way, home, inject=True)
    assert run.code == (-6 if way == "abort" else -11)
    report = run.report()
    assert report["stack_overflow"] == (way in ("overflow", "python_thread"))
    if way == "python_thread":
        assert report["thread"] == "worker"


@harness.steady
def test_every_python(py, library, tmp_path):
    if py.wrapped or py.debug or py.minor < (3, 6):
        pytest.skip("has no agent here")
    run = crashing.Crash(py.command, library, "segv", tmp_path)
    assert run.code == -11
    top = [(f["func"], f["lineno"]) for f in crashed(run.report())["frames"]
           if f["frame_type"] == "python"]
    assert top[:2] == [("call", crashing.LINES["call"])] + top[1:2] and top[1][0] == "deep"
    run = crashing.Crash(py.command, library, "raise", tmp_path)
    assert run.code == 1 and run.report()["at"]["lineno"] == crashing.LINES["raise"]


@harness.steady
def test_forked_child(any_py, library, home):
    """A child that has no agent of its own yet; the parent goes on."""
    run = crashing.Crash(any_py.command, library, "fork", home)
    assert run.code == 0 and run.out.split()[-2:] == ["CHILD", "11"]
    child = [r for r in run.list() if r["at"] and r["command"].endswith("fork 0")]
    assert child and child[0]["at"]["lineno"] == crashing.LINES["call"]
    assert child[0]["pid"] != run.pid


@harness.steady
def test_mended(any_py, library, home):
    """A handler that the program puts in place later is the only one that runs."""
    run = crashing.Crash(any_py.command, library, "mended", home)
    assert run.code == 0 and run.out.split()[-2:] == ["MENDED", "1"]
    assert not [r for r in run.list() if r["pid"] == run.pid]


@pytest.mark.parametrize("way,code", [("raise", 1), ("own_hook", 1), ("raise_in_thread", 0)])
@harness.steady
def test_exception(any_py, library, home, way, code):
    bare = crashing.Crash(any_py.command, library, way, home, armed=False)
    run = crashing.Crash(any_py.command, library, way, home)
    assert bare.code == run.code == code and bare.err == run.err
    report = run.report()
    assert report["cause"] == "ValueError: bad rate 0.5 of 1000"
    assert report["at"]["lineno"] == crashing.LINES["raise"]
    frame = crashed(report)["frames"][0]
    assert frame["func"] == "raise_error" and frame["locals"]["rate"] == "0.5"
    assert frame["locals"]["values"] == "[0, 1, 2, … 997 more]"
    assert report["thread"] == ("loader" if way == "raise_in_thread" else "MainThread")


@harness.steady
def test_no_crash(any_py, library, home):
    run = crashing.Crash(any_py.command, library, "exit", home)
    assert run.code == 7 and not [r for r in run.list() if r["pid"] == run.pid]


@harness.steady
def test_ejected(any_py, library, home):
    """What was there before us is there again."""
    target = subprocess.Popen([any_py.command, crashing.SCRIPT, library, "segv"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=harness.ENV,
                              preexec_fn=harness.die_with_parent)
    target.stdout.readline()

    def caught():
        with open("/proc/%d/status" % target.pid) as file:
            mask = int([line for line in file if line.startswith("SigCgt")][0].split()[1], 16)
        return mask & ((1 << 31) - 1)  # those of the C library's own come behind

    before, env = caught(), {"PROBING_HOME": str(home)}
    assert harness.probing(target.pid, "inject", "-c", env=env).returncode == 0
    five = sum(1 << (number - 1) for number in (4, 6, 7, 8, 11))
    assert patience.once(caught, lambda now: now == before | five) == before | five
    assert harness.probing(target.pid, "eject", env=env).returncode == 0
    assert patience.once(caught, lambda now: now == before) == before
    target.communicate(b"\n")
    assert target.returncode == -11


@harness.steady
def test_nobody_to_ask(any_py, library, home):
    """A tool that is not there any more costs nothing but the report."""
    run = crashing.Crash(any_py.command, library, "segv", home,
                         env={"PROBING_CRASH_TOOL": "/nonexistent/probing"})
    assert run.code == -11 and not [r for r in run.list() if r["pid"] == run.pid]


def test_launch(any_py, tmp_path):
    """The tool that starts the program makes the report, too."""
    node = Node(tmp_path)
    script = tmp_path / "job.py"
    script.write_text("def look(rows):\n    return rows[5]\nlook([1, 2])\n")
    env = dict(harness.ENV, **node.env)
    run = subprocess.run([harness.BIN, "launch", any_py.command, str(script)],
                         env=dict(env, PROBING_CRASH="1"), stderr=subprocess.PIPE, timeout=120)
    assert run.returncode == 1 and b"IndexError: list index" in run.stderr
    try:
        found = node("crashes", "last").stdout
        assert found.startswith("IndexError: list index out of range\n"), found
        assert "look job.py:2" in found
    finally:
        node.stop()


@harness.steady
def test_torchrun(library, home, tmp_path):
    """torchrun's own report shows the stack of a rank that a signal ended."""
    python = os.path.join(harness.ROOT, "build", "venv", "bin", "python")
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no torch")
    worker = tmp_path / "worker.py"
    worker.write_text("import ctypes, os, time\n"
                      "def step():\n    ctypes.string_at(0)\n"
                      "if os.environ['RANK'] == '1':\n    step()\n"
                      "time.sleep(60)\n")
    env = dict(harness.ENV, PROBING="2", PROBING_CRASH="1", PROBING_QUIET="1",
               PROBING_EXECUTABLE=harness.BIN, PROBING_HOME=str(home),
               PYTHONPATH=":".join([crashing.package_folder(home),
                                    os.path.join(harness.ROOT, "python", "launch")]))
    run = subprocess.run([python, "-m", "torch.distributed.run", "--nproc-per-node=2",
                          "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(worker)],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, timeout=120)
    text = run.stderr.decode()
    assert run.returncode != 0 and "exitcode  : -11" in text, text
    assert "SIGSEGV: nothing is mapped at 0x0" in text, text
    assert 'worker.py", line 3, in step' in text, text


@harness.steady
def test_table(any_py, library, tmp_path):
    """python.crashes: the same reports in SQL."""
    node = Node(tmp_path)
    run = crashing.Crash(any_py.command, library, "fpe", node.home)
    crashing.Crash(any_py.command, library, "raise", node.home)
    try:
        rows = node.rows("SELECT kind, signal, exception, func, lineno, pid FROM python.crashes "
                         "ORDER BY timestamp")
        assert [(row["kind"], row["signal"], row["exception"], row["func"], row["lineno"])
                for row in rows] == [
            ("signal", "SIGFPE", None, "call", crashing.LINES["call"]),
            ("exception", None, "ValueError", "raise_error", crashing.LINES["raise"])]
        assert rows[0]["pid"] == run.pid
        one = node.rows("SELECT id FROM python.crashes WHERE pid = %d" % run.pid)
        assert len(one) == 1 and one[0]["id"].endswith("-%d" % run.pid)
    finally:
        node.stop()
