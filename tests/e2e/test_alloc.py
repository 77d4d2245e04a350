"""memory --sites and python.alloc: who allocates the memory that is in use, by sampling."""
import json
import os
import shutil
import subprocess
import time

import pytest

import interpreters
import marks
import patience
from harness import ENV, TARGETS, Target, die_with_parent
from nodes import node  # noqa: F401

EVERY = 65536
SMALL, LARGE = 200000, 200


class Allocating(Target):
    """tests/targets/alloc.py, which does what it is told."""

    def __init__(self, py, env=None):
        self.process = subprocess.Popen(
            [py.command, os.path.join(TARGETS, "alloc.py")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(ENV, **(env or {})),
            start_new_session=True, preexec_fn=die_with_parent)
        self.pid = int(self.read_ready(60).split()[1])

    def send(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def tell(self, command):
        """Returns the sizes of one small and one large block."""
        self.send(command)
        words = self.read_ready(60).split()
        assert words[0] == "done", words
        return int(words[1]), int(words[2])

    def stop(self):
        self.process.stdin.close()
        super().stop()


@pytest.fixture
def allocating(start, node):  # noqa: F811
    def make(py, env=None):
        target = start(Allocating, py, env)
        answer = node(target.pid, "inject", "-D", "memory.sites=on", "-D",
                      "memory.sites_bytes=%d" % EVERY)
        assert answer.returncode == 0, answer.stderr
        wait_on(node, target.pid)
        return target

    return make


@pytest.fixture(scope="module")
def mallocs(tmp_path_factory):
    """Paths of two copies of tests/targets/mallocs.c: two libraries for the loader."""
    folder = tmp_path_factory.mktemp("mallocs")
    made = []
    for name in ("early.so", "late.so"):
        made.append(str(folder / name))
        # Calls by way of two kinds of tables: filled at the first call, and read-only.
        how = ["-Wl,-z,lazy"] if name == "early.so" else ["-Wl,-z,now,-z,relro", "-fno-plt"]
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made[-1],
                        os.path.join(TARGETS, "mallocs.c"), "-ldl"] + how, check=True)
    return made


def wait_on(node, pid):  # noqa: F811
    sql = "SELECT state FROM probing.agents WHERE collector = 'alloc'"
    patience.until(lambda: node.rows(sql, pid),
                   lambda rows: rows and rows[0]["state"] == "on")


def sites(node, pid):  # noqa: F811
    """{function: (bytes in use, their error, all bytes)} of the target's own functions."""
    out = {}
    for row in node.rows("SELECT func, file, live_mb * 1048576 AS live, error_mb * 1048576 AS err, "
                         "alloc_mb * 1048576 AS total FROM alloc_sites", pid):
        if row["file"] and row["file"].endswith("alloc.py"):
            name = row["func"].split(".")[0]
            name = "list" if name == "<listcomp>" else name
            live, error, total = out.get(name, (0, 0, 0))
            out[name] = (live + row["live"], (error ** 2 + row["err"] ** 2) ** 0.5,
                         total + row["total"])
    return out


def in_use(seen, *names):
    """Sums of the named functions; up to 3.10 a list comprehension does not say whose it is."""
    names = names + ("list",)
    found = [seen[name] for name in names if name in seen]
    return sum(f[0] for f in found), sum(f[1] ** 2 for f in found) ** 0.5


def is_near(found, truth):
    """Within five standard errors; one block more or less is in flight."""
    return abs(found[0] - truth) < 5 * found[1] + 0.01 * truth


def check_estimates(node, target):  # noqa: F811
    size, big = target.tell("keep")
    truth = SMALL * size + LARGE * big
    seen = patience.until(lambda: sites(node, target.pid),
                          lambda seen: is_near(in_use(seen, "small", "large"), truth) and
                          seen.get("grow", (0,))[0] > 2e6)  # tuples, strings, and the list itself
    assert 0.005 * truth < in_use(seen, "small", "large")[1] < 0.06 * truth
    if "large" in seen and seen["large"][0] > 1e6:  # 3.11 on: by function
        assert is_near(seen["large"], LARGE * big) and is_near(seen["small"], SMALL * size)
    return truth


def test_what_is_in_use_by_line(allocating, node, py):  # noqa: F811
    target = allocating(py)
    truth = check_estimates(node, target)
    target.tell("drop")
    seen = patience.until(lambda: sites(node, target.pid),
                          lambda seen: in_use(seen, "small", "large", "grow")[0] < 0.02 * truth)
    assert max(total for _, _, total in seen.values()) > 0.3 * truth  # it was allocated once
    assert node(target.pid, "eject").returncode == 0
    target.tell("keep")
    target.tell("drop")
    assert target.process.poll() is None


@pytest.mark.parametrize("allocator", ["malloc", "debug", "pymalloc_debug"])
def test_other_allocators(allocating, node, allocator):  # noqa: F811
    check_estimates(node, allocating(interpreters.newest(), {"PYTHONMALLOC": allocator}))


def test_a_forked_child_counts_its_own(allocating, node):  # noqa: F811
    target = allocating(interpreters.newest())
    target.tell("keep")
    target.send("fork")
    child = int(target.read_ready(60).split()[1])
    wait_on(node, child)
    # What it has from its parent is not its own.
    assert in_use(sites(node, child), "large")[0] < 3e6
    target.send("end")
    target.read_ready(60)
    target.tell("drop")


@pytest.mark.long
def test_beside_tracemalloc(allocating, node):  # noqa: F811
    target = allocating(interpreters.newest())
    target.tell("trace")
    truth = check_estimates(node, target)
    target.tell("drop")
    target.tell("untrace")
    patience.until(lambda: sites(node, target.pid),
                   lambda seen: in_use(seen, "small", "large")[0] < 0.02 * truth)
    check_estimates(node, target)


def test_tracemalloc_that_was_there_before(start, node):  # noqa: F811
    target = start(Allocating, interpreters.newest())
    target.tell("trace")
    assert node(target.pid, "config", "memory.sites=on").returncode == 0
    wait_on(node, target.pid)
    target.tell("untrace")  # puts back what it found, over our hooks
    target.tell("keep")
    first = node.rows("SELECT max(since) AS at FROM python.alloc", target.pid)
    patience.until(lambda: (target.tell("keep"),
                            node.rows("SELECT max(since) AS at FROM python.alloc", target.pid))[1],
                   lambda rows: rows[0]["at"] and rows != first)


@pytest.mark.parametrize("how", ["gil", "free-threaded"])
def test_on_and_off_in_a_storm(allocating, node, how):  # noqa: F811
    fitting = [py for py in interpreters.found()
               if py.free_threaded == (how == "free-threaded") and py.version >= (3, 7)]
    if not fitting:
        pytest.skip("no such interpreter")
    target = allocating(fitting[-1])
    for i in range(3):
        target.send("storm")
        for value in ("off", "on"):
            assert node(target.pid, "config", "memory.sites=" + value).returncode == 0
        assert target.read_ready(120).startswith("done")
    assert target.process.poll() is None


def test_the_command(allocating, node, tmp_path):  # noqa: F811
    target = allocating(interpreters.newest())
    target.tell("keep")
    patience.until(lambda: sites(node, target.pid), lambda seen: "grow" in seen)
    answer = node(target.pid, "memory", "--sites", "-d", "3")
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert "MB in use" in lines[0] and lines[1].split()[:2] == ["in", "use"]
    assert "large" in lines[2] and "alloc.py:17" in lines[2], lines[2]
    shown = json.loads(node(target.pid, "memory", "--sites", "--json").stdout)
    assert shown["pid"] == target.pid and shown["sites"][0]["lineno"] == 17
    folded = node(target.pid, "memory", "--sites", "-o", "-").stdout.splitlines()
    assert any(line.startswith("<module> (alloc.py:") and "large" in line and
               int(line.split()[-1]) > 3e7 for line in folded), folded
    scope = tmp_path / "m.speedscope.json"
    assert node(target.pid, "memory", "--sites", "-o", scope).returncode == 0
    profile = json.loads(scope.read_text())["profiles"][0]
    assert profile["unit"] == "bytes" and abs(profile["endValue"] - shown["live_bytes"]) < 2e6
    for name in ("m.html", "m.svg", "m.pb"):
        assert node(target.pid, "memory", "--sites", "-o", tmp_path / name).returncode == 0
    assert '"unit":"bytes"' in (tmp_path / "m.html").read_text()
    assert " MB, " in (tmp_path / "m.svg").read_text()
    assert b"inuse_space" in (tmp_path / "m.pb").read_bytes()
    refused = node(target.pid, "memory", "--sites", "-o", tmp_path / "m.gecko.json")
    assert refused.returncode == 2 and ".speedscope.json" in refused.stderr


def test_a_dead_process_still_answers(allocating, node):  # noqa: F811
    target = allocating(interpreters.newest())
    target.tell("keep")
    patience.until(lambda: sites(node, target.pid), lambda seen: "grow" in seen)
    target.process.kill()
    target.process.wait()
    answer = node(target.pid, "memory", "--sites")
    assert answer.returncode == 0, answer.stderr
    assert "alloc.py:17" in answer.stdout


HELD = 400 * 100000


def held(node, pid):  # noqa: F811
    """(bytes in use, their error) of what C code got from malloc when hold() called it."""
    return sites(node, pid).get("hold", (0, 0, 0))[:2]


def untouched(target):
    target.send("?")
    return target.read_ready(60).split()[3] == "1"


def lies_low(py):
    """Whether its program is not position-independent: it may have stubs for functions."""
    with open(os.path.realpath(shutil.which(py.command)), "rb") as file:
        return file.read(18)[16] == 2  # ET_EXEC


@pytest.mark.parametrize("how", ["early"] + marks.rarely("late", "early, low"))
def test_blocks_of_malloc(allocating, node, mallocs, any_py, how):  # noqa: F811
    """By the Python line that called the C code; in libraries that are loaded later, too."""
    low = [py for py in interpreters.found() if lies_low(py) and py.version >= (3, 7)]
    if "low" in how and not low:
        pytest.skip("no interpreter is a program at a fixed address")
    target = allocating(low[0] if "low" in how else any_py)
    path = mallocs[how == "late"]
    if how != "late":
        target.tell("load " + path)
        target.tell("hold")
        assert held(node, target.pid)[0] == 0, "nobody asked for it"
        target.tell("release")
    assert node(target.pid, "config", "memory.malloc=on").returncode == 0
    if how == "late":
        target.tell("load " + path)
    patience.until(lambda: untouched(target), lambda seen: not seen)
    target.tell("hold")
    found = patience.until(lambda: held(node, target.pid), lambda found: is_near(found, HELD))
    assert 0.001 * HELD < found[1] < 0.1 * HELD, found
    check_estimates(node, target)  # what Python has from malloc is not counted twice
    target.tell("release")
    patience.until(lambda: held(node, target.pid), lambda found: found[0] < 0.02 * HELD)
    target.tell("hold")
    assert node(target.pid, "config", "memory.malloc=off").returncode == 0
    patience.until(lambda: untouched(target), lambda seen: seen)
    patience.until(lambda: held(node, target.pid), lambda found: found[0] == 0)
    assert node(target.pid, "config", "memory.malloc=on").returncode == 0
    patience.until(lambda: untouched(target), lambda seen: not seen)
    target.send("fork")
    child = int(target.read_ready(60).split()[1])
    wait_on(node, child)
    target.send("end")
    target.read_ready(60)
    assert node(target.pid, "eject").returncode == 0
    assert untouched(target)
    target.tell("release")


def test_malloc_in_a_storm(allocating, node, mallocs, any_py):  # noqa: F811
    """Threads that allocate in C without a GIL, while tables are written."""
    target = allocating(any_py)
    target.tell("load " + mallocs[0])
    for i in range(4):
        target.send("cstorm")
        for value in ("on", "off"):
            assert node(target.pid, "config", "memory.malloc=" + value).returncode == 0
            time.sleep(0.1 * i)
        assert target.read_ready(120).startswith("done")
    assert target.process.poll() is None


def test_the_command_with_malloc(start, node, mallocs):  # noqa: F811
    target = start(Allocating, interpreters.newest())
    target.tell("load " + mallocs[1])
    assert node(target.pid, "config", "memory.sites_bytes=%d" % EVERY).returncode in (0, 1)
    assert node(target.pid, "memory", "--sites", "-n", "-d", "0.1").returncode in (0, 1)
    patience.until(lambda: untouched(target), lambda seen: not seen)
    target.tell("hold")
    answer = patience.until(lambda: node(target.pid, "memory", "--sites", "-n"),
                            lambda answer: "hold  alloc.py:" in answer.stdout)
    assert "sampling begins now" not in answer.stderr, answer.stderr


def test_off_until_it_is_asked_for(start, node):  # noqa: F811
    target = start(Allocating, interpreters.newest())
    assert node(target.pid, "inject").returncode == 0
    patience.until(lambda: node.rows("SELECT state FROM probing.agents WHERE collector = 'alloc'",
                                     target.pid), lambda rows: rows and rows[0]["state"] == "off")
    target.tell("keep")
    assert node.rows("SELECT count(*) AS n FROM python.alloc", target.pid)[0]["n"] == 0
