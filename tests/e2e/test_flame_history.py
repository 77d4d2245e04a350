"""flamegraph out of history, of dead processes and jobs, and differences; GET /api/flame."""
import json
import os
import re
import signal
import time
import urllib.parse

import pytest

import harness
import nodes
import patience
from test_flamegraph import share
from test_http import Connection
from test_samples import sampled, watched

harness.RESTLESS.update({"shares.py"})

PHASES = """
import os, sys, time
def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
def early():
    burn(0.02)
def late():
    burn(0.02)
def both():
    burn(0.01)
print("ready", os.getpid(), flush=True)
while True:
    (late if os.path.exists(sys.argv[1]) else early)()
    both()
"""


@pytest.fixture
def node(tmp_path):
    node = nodes.Node(tmp_path, PROBING_HISTORY_DELAY="2")
    yield node
    node.stop()


def stacks_of(text):
    found = {}
    for line in text.splitlines():
        frames, _, us = line.rpartition(" ")
        found[tuple(frames.split(";"))] = int(us) / 1e6
    return found


def flame(node, *words):
    answer = node(*words)
    assert answer.returncode == 0, (words, answer.stderr)
    return answer.stdout


def test_the_last_seconds_also_of_a_dead_process(any_py, start, node, tmp_path):
    target = start(harness.Script, any_py, "shares.py")
    watched(node, target, "-D", "profile.rate=100")
    sampled(node, target.pid, 4)
    live = stacks_of(flame(node, target.pid, "fg", "--last", "3s", "-o", "-"))
    for func, part in (("half", 0.5), ("fifth", 0.2), ("rest", 0.3)):
        assert abs(share(live, func) - part) < 0.12, (func, live)
    assert abs(sum(live.values()) - 3) < 0.3, "the window, no more and no less"
    assert any("half (shares.py:%d)" % target.lines["half"] in frames for frames in live), live
    os.kill(target.pid, signal.SIGKILL)
    target.process.wait()
    end = time.monotonic() + 30
    while True:
        text = flame(node, target.pid, "fg", "--last", "2s", "-F", "-o", "-")
        dead = stacks_of(text)
        if abs(sum(dead.values()) - 2) < 0.2 or time.monotonic() > end:
            break
    assert not re.search(r"py:\d", text) and share(dead, "half") > 0.3, dead
    path = tmp_path / "dead.html"
    said = flame(node, target.pid, "fg", "--last", "2s", "-o", path)
    assert re.match(r"20\d\d-\S+ \S+ to \S+, 2 threads: 2\.0 s, \d+ samples\n", said), said
    assert b"shares.py" in path.read_bytes()
    # Windows by the clock, and none.
    everything = stacks_of(flame(node, target.pid, "fg", "--from", "10min", "--to", "0s", "-o",
                                 "-"))
    assert sum(everything.values()) > 4, everything
    # Of a longer window no more than there is of the process.
    said = flame(node, target.pid, "fg", "--last", "30d", "-o", path)
    length = float(re.search(r"threads: ([\d.]+) s,", said).group(1))
    assert 0.9 * sum(everything.values()) < length < 1.2 * sum(everything.values()) + 1, said
    answer = node(target.pid, "fg", "--from", "2h", "--to", "1h", "-o", "-")
    assert answer.returncode == 1 and "no samples" in answer.stderr, answer.stderr
    for wrong in (["--last", "soon"], ["--from", "12"], ["--from", "1h", "--to", "2h"]):
        assert node(target.pid, "fg", *wrong).returncode == 2, wrong


@pytest.mark.long
def test_two_windows(any_py, start, node, tmp_path):
    """What a process does from some moment on is red, what it did before is gone."""
    script, switch = tmp_path / "phases.py", tmp_path / "switch"
    script.write_text(PHASES)
    target = start(harness.Target, [any_py.command, str(script), str(switch)])
    watched(node, target, "-D", "profile.rate=100")
    sampled(node, target.pid, 6)
    switch.write_text("")
    turned = time.monotonic()
    patience.until(lambda: time.monotonic() > turned + 6)
    ago = time.monotonic() - turned
    said = flame(node, target.pid, "fg", "--diff", "%gs..%gs" % (ago + 5, ago + 0.5),
                 "%gs..%gs" % (ago - 1, 0), "-F", "-f", "collapsed", "-o", "-")
    found = {}
    for line in said.splitlines():
        frames, before, now = line.rsplit(" ", 2)
        for func in ("early", "late", "both"):
            if "%s (" % func in frames:
                old = found.get(func, (0, 0))
                found[func] = (old[0] + int(before), old[1] + int(now))
    assert found["early"][0] > 5 * found["early"][1], said
    assert found["late"][1] > 5 * found["late"][0], said
    assert 0.5 < found["both"][0] / found["both"][1] < 2, said
    path = tmp_path / "diff.svg"
    said = flame(node, target.pid, "fg", "--diff", "%gs..%gs" % (ago + 2, ago + 0.5), "2s", "-o",
                 path)
    assert "compared with" in said and "hsl(8," in path.read_text()
    answer = node(target.pid, "fg", "--diff", "4s..2s", "2s", "-f", "pprof", "-o", "-")
    assert answer.returncode == 2 and "difference" in answer.stderr


def test_processes_files_and_jobs(any_py, start, node, tmp_path):
    targets = [start(harness.Script, any_py, "shares.py", env={"RANK": str(rank)})
               for rank in range(3)]
    names = ",".join(str(target.pid) for target in targets)
    together = stacks_of(flame(node, names, "fg", "-d", "1", "-o", "-"))
    assert {frames[0].split(" (")[0] for frames in together} == {
        "rank %d, process %d" % (rank, target.pid) for rank, target in enumerate(targets)}
    job = stacks_of(flame(node, "job:shares.py", "fg", "-d", "0.5", "-o", "-"))
    assert {frames[0] for frames in job} >= {frames[0] for frames in together}
    for target in targets:
        watched(node, target)
    for target in targets:
        sampled(node, target.pid, 5)
    past = stacks_of(flame(node, names, "fg", "--last", "1s", "-o", "-"))
    assert {frames[0] for frames in past} == {"rank %d, process %d" % (rank, target.pid)
                                               for rank, target in enumerate(targets)}
    # One rank against the median of the others, whichever comes first.
    for words in (["rank:1", "median"], ["median", "rank:1"]):
        said = flame(node, names, "fg", "--last", "4s", "--diff", *words, "-F", "-f", "collapsed",
                     "-o", "-")
        sums = [sum(int(line.rsplit(" ", 2)[part]) for line in said.splitlines())
                for part in (1, 2)]
        assert all(2.4e6 < us < 5.6e6 for us in sums), said
    # Two processes now, and two files.
    said = flame(node, "fg", "-d", "0.5", "--diff", targets[0].pid, targets[1].pid, "-o",
                 tmp_path / "two.html")
    assert "2 processes" in said and "compared with %d" % targets[0].pid in said
    files = [tmp_path / "a.json", tmp_path / "b.collapsed"]
    for target, path in zip(targets, files):
        flame(node, target.pid, "fg", "-d", "0.5", "-o", path)
    said = flame(node, "fg", "--diff", *files, "-f", "collapsed", "-o", "-")
    assert "half (shares.py" in said, said
    found = {}
    for line in flame(node, "fg", "--diff", *files, "-F", "-f", "collapsed", "-o",
                      "-").splitlines():
        frames, before, now = line.rsplit(" ", 2)
        if "rest (" in frames:
            found["before"] = found.get("before", 0) + int(before)
            found["now"] = found.get("now", 0) + int(now)
    assert 0.4 < found["before"] / found["now"] < 2.5, found
    answer = node("fg", "--diff", *files, cwd=str(tmp_path))
    assert re.search(r"^flamegraph-\d{6}\.html ", answer.stdout, re.M), answer
    for wrong in (["--diff", "rank:9"], ["--diff", "nonsense", "2s"], ["x"],
                  ["--diff", "median", "2s"]):
        assert node(targets[0].pid, "fg", *wrong).returncode == 2, wrong


def get(node, **parameters):
    it = Connection(node.socket())
    it.request("GET", "/api/flame?" + urllib.parse.urlencode(parameters))
    answer = it.getresponse()
    text = answer.read().decode()
    it.close()
    return answer.status, text


def times_in(tree, func):
    """Time of a function with all that it called."""
    inside = []
    for parent, frame in zip(tree["parent"], tree["frame"]):
        inside.append(tree["frames"][frame][0] == func or (bool(inside) and inside[parent]))
    return sum(us for node, us in zip(tree["leaves"][::4], tree["leaves"][3::4]) if inside[node])


def test_the_route(any_py, start, node):
    """A tree of bounded size, whose time is that of the window, with ids to ask further."""
    target = start(harness.Script, any_py, "shares.py")
    watched(node, target, "-D", "profile.rate=100")
    sampled(node, target.pid, 3)
    status, data = get(node, target=target.pid, last=2)
    assert status == 200, data
    tree = json.loads(data)
    assert "shares.py" in tree["title"] and tree["slots"]["n"] == 120
    assert abs(sum(tree["leaves"][3::4]) / 1e6 - 2) < 0.2
    assert {"half", "fifth", "burn", "<module>"} <= {frame[0] for frame in tree["frames"]}
    assert len(tree["slot"]) * 4 == len(tree["leaves"])
    status, data = get(node, target=target.pid, last=2, nodes=2)
    small = json.loads(data)
    assert len(small["parent"]) <= 6 and small["more"], small
    assert abs(sum(small["leaves"][3::4]) - sum(tree["leaves"][3::4])) < 0.3e6
    node_of, stack = next(iter(small["more"].items()))
    status, data = get(node, target=target.pid, last=2, below=stack)
    assert status == 200 and "half" in {frame[0] for frame in json.loads(data)["frames"]}, data
    status, data = get(node, target=target.pid, last=1, before_last=2)
    assert status == 200 and json.loads(data)["before"], data
    status, data = get(node, target=target.pid, last=2, cpu=1, thread="Main")
    # The moments in which it goes to sleep and wakes up are all that is left of its rest.
    assert times_in(json.loads(data), "rest") < 0.1 * times_in(json.loads(data), "half"), data
    for wrong in ({"last": "x"}, {"below": "zz"}, {"thread": "["}, {"from": 9, "to": 5}):
        assert get(node, target=target.pid, **wrong)[0] == 400, wrong
    assert get(node, target=target.pid, below="0123456789abcdef")[0] == 404
    assert get(node, target=999999999)[0] == 404


@pytest.mark.parametrize("expression", ("((((a{1,99}){1,99}){1,99}){1,99})", "(a*)*\\1" * 3,
                                        "(" * 100 + ")" * 100))
def test_an_expression_that_would_take_all_memory(node, expression):
    """The C library does not stop: it is refused before it begins."""
    node("serve")
    status, data = get(node, last=2, thread=expression)
    assert status == 400 and "thread: an expression here" in str(data), (status, data)
    assert node.rows("SELECT 1 AS one") == [{"one": 1}]
