"""flamegraph: what share of the time goes where, of processes nobody prepared."""
import fcntl
import glob
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import time

import pytest

import chainlaw
import harness

harness.RESTLESS.update({"shares.py"})


def record(pid, tmp_path, *options, secs=1.5, rate=200, form="collapsed", timeout=60):
    """(stacks as {tuple of labels: seconds}, what was said)."""
    path = str(tmp_path / "out.txt")
    answer = harness.probing(pid, "flamegraph", "-d", secs, "-r", rate, "-f", form, "-o", path,
                             *options, timeout=timeout)
    assert answer.returncode == 0, (answer.returncode, answer.stderr)
    stacks = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            frames, _, us = line.rstrip("\n").rpartition(" ")
            stacks[tuple(frames.split(";"))] = int(us) / 1e6
    return stacks, answer.stdout


def share(stacks, func):
    """Of the time, that in which a function of this name is on the stack."""
    hit = sum(secs for frames, secs in stacks.items()
              if any(re.match(r"(\w+\.)*%s \(" % re.escape(func), frame) for frame in frames))
    return hit / sum(stacks.values())


@harness.steady
@pytest.mark.few
def test_shares(py, start, tmp_path):
    target = start(harness.Script, py, "shares.py")
    stacks, said = record(target.pid, tmp_path, secs=2)
    for func, part in (("half", 0.5), ("fifth", 0.2), ("rest", 0.3), ("turn", 1.0)):
        assert abs(share(stacks, func) - part) < 0.06, (func, stacks, said)
    assert abs(sum(stacks.values()) - 2) < 0.3, said  # one thread, wall time: nothing is lost
    assert not any("sleeper" in frame for frames in stacks for frame in frames)
    chain = [frames for frames in stacks if "burn" in frames[-1] and "half" in frames[-2]]
    assert chain and chain[0][-2] == "half (shares.py:%d)" % target.lines["half"], stacks
    torn = re.search(r"(\d+) torn", said)
    assert not torn or int(torn.group(1)) <= 4, said


@pytest.mark.parametrize("options", [[], ["--no-pause"]], ids=["", "no-pause"])
@harness.steady
@pytest.mark.few
def test_no_stack_that_never_was(py, start, tmp_path, options):
    """Threads that do little but call: whatever is not marked as torn is a stack they can have."""
    program = str(tmp_path / "program.py")
    target = start(harness.Script, py, "chains.py", program)
    path = tmp_path / "out.json"
    answer = harness.probing(target.pid, "fg", "-d", "1", "-r", "500", "--cpu", "-o", path,
                             *options)
    assert answer.returncode == 0, answer.stderr
    law, recorded = chainlaw.Law(program), json.loads(path.read_text())
    frames = [{"func": frame["name"], "file": frame.get("file"), "lineno": frame.get("line", 0),
               "frame_type": "python"} for frame in recorded["shared"]["frames"]]
    seen, wrong = 0, []
    for profile in recorded["profiles"]:
        name = profile["name"].split(" ")[0]
        for sample in profile["samples"] if name.startswith("chain-") else []:
            stack = [frames[number] for number in reversed(sample)]
            if stack[0]["func"].startswith("<torn"):
                continue
            breach = law.breach({"name": name, "frames": stack})
            seen += 1
            wrong += [breach] if breach else []
    assert seen > 50 and not wrong, (seen, wrong[:5], answer.stdout)
    if options:
        assert "stops" not in answer.stdout, answer.stdout
    else:
        torn = re.search(r"(\d+) torn", answer.stdout)
        assert not torn or int(torn.group(1)) <= 2, answer.stdout


@harness.steady
@pytest.mark.few
def test_filters(py, start, tmp_path):
    target = start(harness.Script, py, "shares.py")
    running, _ = record(target.pid, tmp_path, "--cpu", secs=0.8)
    assert share(running, "rest") < 0.05 and share(running, "half") > 0.5, running
    everything, _ = record(target.pid, tmp_path, "--idle", secs=0.6)
    assert abs(share(everything, "sleeper") - 0.5) < 0.05, everything
    named, _ = record(target.pid, tmp_path, "-t", "^sleep", secs=0.3)
    assert share(named, "sleeper") == 1, named
    functions, _ = record(target.pid, tmp_path, "-F", secs=0.3)
    assert not any(re.search(r"py:\d+\)", frame) for frames in functions for frame in frames)
    if not py.free_threaded:
        holding, _ = record(target.pid, tmp_path, "--gil", secs=0.8)
        assert share(holding, "rest") < 0.05 and share(holding, "half") > 0.5, holding


def test_hung_with_the_gil_held(py, start, tmp_path):
    if py.free_threaded:
        pytest.skip("no GIL")
    target = start(harness.Script, py, "gil_hold.py")
    stacks, said = record(target.pid, tmp_path, secs=0.3)
    assert share(stacks, "hold") > 0.4, (stacks, said)
    holding, _ = record(target.pid, tmp_path, "--gil", secs=0.3)
    assert share(holding, "hold") > 0.95, holding
    answer = subprocess.run([harness.BIN, str(target.pid), "fg", "-d", "0.2"], cwd=str(tmp_path),
                            stdout=subprocess.PIPE, env=harness.ENV, encoding="utf-8")
    assert re.search(r"hold .*, holds the GIL$", answer.stdout, re.M), answer.stdout


@pytest.mark.few
def test_many_threads_at_rest_are_cheap(py, start, tmp_path):
    target = start(harness.Script, py, "many.py", 150)
    before = runs(target.pid)
    stacks, said = record(target.pid, tmp_path, secs=0.8, rate=100)
    assert list(stacks) and share(stacks, "main") > 0.99, stacks  # the workers rest
    cost = float(re.search(r"cost ([\d.]+) % of a core", said).group(1))
    assert cost < 60, said  # of a build that is not optimised, on a machine that others use
    assert "stops" not in said and "torn" not in said, said
    assert runs(target.pid) == before, "a blocked thread was woken"
    stacks, _ = record(target.pid, tmp_path, "--idle", secs=0.5, rate=50)
    assert abs(share(stacks, "worker") - 150 / 151) < 0.01


def runs(pid):
    out = {}
    for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
        with open(path) as file:
            out[path] = file.read().split()[2]
    return out


@pytest.mark.few
def test_children(py, start, tmp_path):
    target = start(harness.Script, py, "shares.py", "fork")
    stacks, said = record(target.pid, tmp_path, "-s", secs=1)
    child = target.extra[0]
    try:
        assert "2 processes" in said
        own = {frames[0].split(" (")[0] for frames in stacks}
        assert own == {"process %d" % target.pid, "process %d" % child}, own
        assert abs(share(stacks, "in_child") - 0.5) < 0.2, stacks
    finally:
        os.kill(child, signal.SIGKILL)


EXEC = """
import os, sys, time
def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
def before():
    burn(0.5)
def after():
    burn(30)
if sys.argv[1] == "first":
    os.write(1, b"ready %d\\n" % os.getpid())
    before()
    os.execv(sys.executable, [sys.executable, sys.argv[0], "second"])
after()
"""


@pytest.mark.few
def test_a_process_that_calls_exec(py, start, tmp_path):
    """The same process runs another interpreter, at other addresses, and nothing is left out."""
    script = tmp_path / "again.py"
    script.write_text(EXEC)
    target = start(harness.Target, [py.command, str(script), "first"])
    stacks, said = record(target.pid, tmp_path, secs=4)
    assert share(stacks, "after") > 0.3, (stacks, said)


@pytest.mark.few
def test_a_process_that_ends(py, start, tmp_path):
    target = start(harness.Script, py, "shares.py", "end")
    began = time.monotonic()
    stacks, said = record(target.pid, tmp_path, secs=30)
    assert time.monotonic() - began < 10, said
    assert share(stacks, "half") > 0.2, stacks


@pytest.mark.few
def test_native(py, start, tmp_path):
    if py.free_threaded:
        pytest.skip("the target needs a GIL")
    target = start(harness.Script, py, "gil_hold.py")
    stacks, said = record(target.pid, tmp_path, "-n", "-t", "Main", secs=0.5, rate=50)
    assert any("sleep" in frames[-1] or "sleep" in frames[-2] for frames in stacks), stacks
    assert any(any("hold (" in frame for frame in frames[:-1]) for frames in stacks), stacks


def test_partial_stacks_are_marked(any_py, start, tmp_path):
    """Registers of a thread that runs cannot be had without a stop: its Python frames are kept."""
    target = start(harness.Script, any_py, "spin.py")
    stacks, said = record(target.pid, tmp_path, "-n", "--no-pause", secs=0.5, rate=50)
    marked = [frames for frames in stacks if frames[0].startswith("<partial: no native stack")]
    assert any("main (" in frame for frames in marked for frame in frames), (stacks, said)
    assert re.search(r", \d+ partial", said), said
    stacks, said = record(target.pid, tmp_path, secs=0.3, rate=50)
    assert " partial" not in said and not any("partial" in frames[0] for frames in stacks), said


@harness.steady
def test_a_thread_is_held_for_a_small_part_of_the_time(any_py, start, tmp_path):
    target = start(harness.Script, any_py, "spin.py")
    stacks, said = record(target.pid, tmp_path, "-n", secs=2, rate=1000)
    stops, each = re.search(r"stops: ([\d,]+) of (\d+) us", said).groups()
    held = (int(stops.replace(",", "")) - 1) * int(each) / 1e6  # a rest comes behind each
    assert held < 0.02 * 2 * 1.25 and "looks left out" in said, said
    assert sum(stacks.values()) > 10 * held, said  # the time between is counted


def test_ctrl_c_keeps_what_there_is(any_py, start, tmp_path):
    target = start(harness.Script, any_py, "shares.py")
    path = tmp_path / "early.svg"
    tool = subprocess.Popen([harness.BIN, str(target.pid), "fg", "-d", "60", "-o", str(path)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.ENV)
    time.sleep(1)
    tool.send_signal(signal.SIGINT)
    out, err = tool.communicate(timeout=60)
    assert tool.returncode == 0, err
    assert path.read_text().startswith("<svg") and b"samples" in out


def test_a_file_of_its_own(any_py, start, tmp_path):
    target = start(harness.Script, any_py, "shares.py")
    answer = subprocess.run([harness.BIN, str(target.pid), "record", "-d", "0.5"],
                            cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=harness.ENV, encoding="utf-8")
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    made = os.listdir(str(tmp_path))
    assert len(made) == 1 and re.fullmatch(r"flamegraph-%d-\d{6}\.html" % target.pid, made[0])
    assert lines[-1].startswith(made[0]), lines
    assert stat.S_IMODE(os.stat(str(tmp_path / made[0])).st_mode) == 0o600
    assert re.match(r"recorded %d at 100 Hz, 2 threads: \d\.\d s, \d+ samples, \d+ missed; cost "
                    % target.pid, lines[0]), lines
    assert re.match(r" +\d+\.\d %  █+.* burn +shares\.py:\d+", lines[1]), lines
    assert any("rest" in line and line.endswith("idle") for line in lines), lines
    assert answer.stderr == ""


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_lines_fit_the_terminal(any_py, start, tmp_path, columns):
    target = start(harness.Script, any_py, "shares.py")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    tool = subprocess.Popen([harness.BIN, str(target.pid), "fg", "-d", "1.2"], stdout=slave,
                            stderr=slave, env=dict(harness.ENV, TERM="xterm"), cwd=str(tmp_path))
    os.close(slave)
    text = b""
    try:
        while tool.poll() is None or select.select([master], [], [], 0.2)[0]:
            text += os.read(master, 65536)
    except OSError:
        pass  # the other end is closed
    os.close(master)
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.decode()).replace("\r\n", "\n").split("\n")
    assert len(lines[0].split("\r")) > 1, lines  # progress, each over the one before
    assert all(len(part) < columns for part in lines[0].split("\r")[:-1]), lines
    hot = [line for line in lines if re.match(r" +\d+\.\d %", line)]
    assert hot and all(len(line) <= columns for line in hot), lines
    assert any("burn" in line for line in hot), lines


@pytest.mark.parametrize("form", ["html", "svg", "speedscope", "pprof", "chrome", "perfetto",
                                  "gecko"])
def test_every_format(any_py, start, tmp_path, form):
    target = start(harness.Script, any_py, "shares.py")
    path = tmp_path / "out"
    answer = harness.probing(target.pid, "fg", "-d", "0.3", "-f", form, "-o", path)
    assert answer.returncode == 0, answer.stderr
    data = path.read_bytes()
    assert b"half" in data and b"shares.py" in data
    if form in ("speedscope", "chrome", "gecko"):
        json.loads(data.decode())
    if form == "html":
        assert b"http" not in data.replace(b"http-equiv", b"")


def test_stdout(any_py, start):
    target = start(harness.Script, any_py, "shares.py")
    answer = harness.probing(target.pid, "fg", "-d", "0.3", "-o", "-")
    assert answer.returncode == 0 and answer.stderr == ""
    assert all(re.search(r" \d+$", line) for line in answer.stdout.splitlines()), answer.stdout


@pytest.mark.parametrize("options, text", [
    (["-r", "0"], "rate"), (["-r", "1001"], "rate"), (["-d", "0"], "duration"),
    (["-o", "x.png"], "format"), (["-t", "["], "--thread"), (["-f", "gif"], "gif"),
    (["--idle", "--gil"], "--idle")])
def test_bad_options(any_py, shared_any, options, text):
    answer = harness.probing(shared_any.pid, "flamegraph", *options)
    assert answer.returncode == 2 and text in answer.stderr, answer.stderr


def test_refusals(shared_any, tmp_path):
    answer = harness.probing(999999999, "flamegraph")
    assert answer.returncode == 4, answer.stderr
    answer = harness.probing(shared_any.pid, "flamegraph", "-d", "0.2", "-t", "nobody", "-o",
                             tmp_path / "x.svg")
    assert answer.returncode == 1 and "--thread" in answer.stderr
    assert not (tmp_path / "x.svg").exists()
    began = time.monotonic()
    answer = harness.probing(shared_any.pid, "flamegraph", "-d", "50", "-o", "/no/such/x.svg")
    assert answer.returncode == 1 and "/no/such" in answer.stderr
    answer = subprocess.run([harness.BIN, str(shared_any.pid), "fg", "-d", "50"], cwd="/proc/self",
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.ENV,
                            encoding="utf-8")
    assert answer.returncode == 1 and "-o" in answer.stderr, answer.stderr
    assert time.monotonic() - began < 40, "said before anything is recorded"


def test_one_of_several_is_not_there(shared_any, tmp_path):
    path = tmp_path / "x.collapsed"
    answer = harness.probing("%d,999999999" % shared_any.pid, "fg", "-d", "0.2", "-o", path)
    assert answer.returncode == 0 and path.exists(), answer.stderr
    assert answer.stderr == "probing: left out: 999999999: no such process\n", answer.stderr
    fifo = tmp_path / "pipe.collapsed"
    os.mkfifo(str(fifo))
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader:
        answer = harness.probing(shared_any.pid, "fg", "-d", "0.2", "-o", fifo)
        assert answer.returncode == 0 and b"half" in reader.stdout.read(), answer.stderr


@pytest.fixture(scope="module")
def shared_any():
    import interpreters
    target = harness.Script(interpreters.newest(), "shares.py")
    yield target
    target.stop()
