"""`probing list`: which processes it shows, and how."""
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

import harness

HEADER = ["pid", "python", "rank", "user", "threads", "state", "command"]


def listed(probing, *words, **how):
    result = probing("list", "-f", "json", *words, **how)
    assert result.returncode == 0 and not result.stderr
    return {entry["pid"]: entry for entry in json.loads(result.stdout)}


def version_of(py):
    out = subprocess.run([py.command, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
                         stdout=subprocess.PIPE, check=True)
    return out.stdout.decode().strip()


def test_each_interpreter(probing, py, shared):
    target = shared("simple.py", "a b", "c")
    entry = listed(probing)[target.pid]
    exact = version_of(py)
    assert entry["python"] in (exact, exact.rpartition(".")[0])
    assert entry["threads"] == len(harness.states(target.pid))
    assert entry["state"] == "waiting"
    assert entry["argv"][-2:] == ["a b", "c"]
    assert entry["command"].endswith("simple.py a b c")
    assert entry["uid"] == os.getuid()
    assert entry["ns_pid"] == target.pid
    assert entry["rank"] is None and entry["world_size"] is None
    assert entry["found_by"]


@pytest.mark.parametrize("env, rank, size", [
    ({"RANK": "1", "WORLD_SIZE": "4"}, 1, 4),
    ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "8"}, 2, 8),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "16"}, 0, 16),
    ({"PMI_RANK": "3"}, 3, None),
    ({"RANK": "x", "SLURM_PROCID": "5"}, 5, None),
    ({"RANK": "-1"}, None, None),
])
def test_rank(probing, start, any_py, env, rank, size):
    target = start(harness.Script, any_py, "simple.py", env=env)
    entry = listed(probing)[target.pid]
    assert (entry["rank"], entry["world_size"]) == (rank, size)


def test_table(probing, start, any_py):
    target = start(harness.Script, any_py, "simple.py", env={"RANK": "0", "WORLD_SIZE": "2"})
    lines = probing("list").stdout.splitlines()
    assert lines[0].split() == HEADER
    row = [line for line in lines if line.split()[0] == str(target.pid)][0]
    cells = row.split(None, 6)
    assert cells[2:6] == ["0/2", cells[3], str(len(harness.states(target.pid))), "waiting"]
    assert cells[6] == target.path  # without the interpreter in front
    assert probing("ls").stdout.splitlines()[0] == probing("l").stdout.splitlines()[0] == lines[0]
    assert probing("list", "-v").stdout.splitlines()[0].endswith("found by")


def test_csv(probing, start, any_py):
    target = start(harness.Script, any_py, "simple.py", 'say "hi", twice')
    rows = list(csv.DictReader(io.StringIO(probing("list", "-f", "csv").stdout)))
    row = [row for row in rows if row["pid"] == str(target.pid)][0]
    assert row["command"].endswith('simple.py say "hi", twice')
    assert row["state"] == "waiting"


def test_tree(probing, start, any_py):
    target = start(harness.Script, any_py, "forks.py")
    children = [entry for entry in listed(probing).values() if entry["parent"] == target.pid]
    assert children
    lines = probing("list", "--tree").stdout.splitlines()
    pids = [int(line.split()[0]) for line in lines[1:]]
    parent = pids.index(target.pid)
    column = lines[0].index("command")

    def indent(row):
        text = lines[1 + row][column:]
        return len(text) - len(text.lstrip())

    for child in children:
        row = pids.index(child["pid"])
        assert row > parent and indent(row) == indent(parent) + 2


def test_states(probing, start, any_py):
    busy = start(harness.Script, any_py, "spin.py")
    stopped = start(harness.Script, any_py, "simple.py")
    os.kill(stopped.pid, signal.SIGSTOP)
    while set(harness.states(stopped.pid)) != {"T"}:
        time.sleep(0.001)
    found = listed(probing)
    assert found[busy.pid]["state"] == "running"
    assert found[stopped.pid]["state"] == "stopped"


def test_others_are_left_out(probing, start, any_py):
    sleeper = subprocess.Popen(["sleep", "60"])
    ended = subprocess.Popen([any_py.command, "-c", "pass"])
    try:
        while harness.states(ended.pid) != ["Z"]:
            time.sleep(0.01)
        found = listed(probing)
        assert sleeper.pid not in found and ended.pid not in found
    finally:
        sleeper.kill()
        sleeper.wait()
        ended.wait()


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_what_another_user_sees(probing, start, any_py):
    target = start(harness.Script, any_py, "simple.py", env={"RANK": "1"})
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run(nobody + [harness.BIN, "-V"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("the tool lies where another user cannot reach it")
    entry = listed(probing, prefix=nobody)[target.pid]
    assert entry["rank"] is None  # its environment is not for others
    assert entry["command"].endswith("simple.py")
    assert "not readable" in entry["found_by"]


def test_no_processes(probing):
    """In a namespace of its own there is no Python."""
    prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run(
            prefix + ["true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no namespaces here")
    result = probing("list", prefix=prefix)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "no Python processes\n")
    result = probing("list", "-f", "json", prefix=prefix)
    assert (result.returncode, result.stdout) == (0, "[]\n")


def test_process_in_a_container(probing, start, any_py):
    prefix = ["unshare", "--pid", "--fork", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run(
            prefix + ["true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no namespaces here")
    start(harness.Script, any_py, "simple.py", "inside-a-namespace",
          command=prefix + [any_py.command])
    entries = [entry for entry in listed(probing).values()
               if "inside-a-namespace" in entry["argv"] and "unshare" not in entry["argv"]]
    assert len(entries) == 1
    assert entries[0]["ns_pid"] == 1 and entries[0]["pid"] > 1


def test_it_is_fast(probing):
    times = []
    for _ in range(10):
        begin = time.monotonic()
        probing("list")
        times.append(time.monotonic() - begin)
    assert min(times) < 0.25
