"""memory --heap: Python objects from outside, against what the process counts itself."""
import json
import os
import signal
import subprocess

import pytest

import cores
import interpreters
from harness import BIN, ENV, TARGETS, Script, Target, die_with_parent, probing
from nodes import node  # noqa: F401


class Objects(Target):
    """tests/targets/heap.py, which makes more objects when it is told to."""

    def __init__(self, py, path, env=None, cwd=None):
        self.path = str(path)
        self.process = subprocess.Popen(
            [py.command, os.path.join(TARGETS, "heap.py"), self.path], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(ENV, **(env or {})), cwd=cwd,
            start_new_session=True, preexec_fn=die_with_parent)
        self.pid = int(self.read_ready(60).split()[1])

    def own(self):
        with open(self.path) as file:
            words = [line.split() for line in file]
        return {name: (int(count), int(size)) for name, count, size in words}

    def grow(self):
        self.process.stdin.write(b".")
        self.process.stdin.flush()
        assert self.read_ready(60) == "grown\n"

    def stop(self):
        self.process.stdin.close()
        super().stop()


def heap(pid, *options, **how):
    answer = probing(pid, "memory", "--heap", "-f", "json", *options, **how)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def by_name(look):
    """{name: (count, bytes)}, classes of the same name together."""
    out = {}
    for row in look["types"]:
        name = row["type"].rpartition(".")[2]
        count, size = out.get(name, (0, 0))
        out[name] = (count + row["count"], size + row["bytes"])
    return out


# Some or all of these the collector does not track; files count their buffers,
# and frames come and go.
UNTRACKED = {"str", "int", "float", "bytes", "tuple", "dict", "code", "type", "bool", "NoneType",
             "BufferedReader", "BufferedWriter", "frame"}


def test_counts_what_the_process_counts(start, py, tmp_path):
    target = start(Objects, py, tmp_path / "own")
    found, own = by_name(heap(target.pid)), target.own()
    assert found["Node"][0] == 4000 and found["Slotted"][0] == 4000
    count, size, mine, mine_size = 0, 0, 0, 0
    for name, (n, total) in own.items():
        if name in UNTRACKED:
            continue
        count, size = count + n, size + total
        mine, mine_size = mine + found.get(name, (0, 0))[0], mine_size + found.get(name, (0, 0))[1]
        if n >= 500:
            assert abs(found[name][0] - n) <= n / 100, (name, found[name], n)
            assert abs(found[name][1] - total) <= total / 100, (name, found[name], total)
    assert count > 10000
    assert abs(mine - count) <= count / 100 and abs(mine_size - size) <= size / 100


def test_no_more_than_there_is(start, py, tmp_path):
    """Pointers of a program that lies low look like counts, of references and of items."""
    target = start(Objects, py, tmp_path / "own")
    look = heap(target.pid)
    with open("/proc/%d/status" % target.pid) as file:
        resident = [int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS")][0]
    assert sum(row["bytes"] for row in look["types"]) < resident, look["types"][:3]


def test_what_the_collector_does_not_track(start, py, tmp_path):
    target = start(Objects, py, tmp_path / "own")
    target.grow()  # makes what is made once only
    before = by_name(heap(target.pid))
    target.grow()
    after = by_name(heap(target.pid))
    # Text, numbers and tuples as tests/targets/heap.py makes them in one go.
    for name, made in (("str", 15000), ("float", 15000), ("bytes", 6000), ("tuple", 3000),
                       ("int", 20000)):
        grown = after[name][0] - before[name][0]
        slack = 3000 if name == "int" else 0  # numbers of the tuples, the small ones are shared
        assert made * 0.99 <= grown <= made * 1.01 + slack, (name, grown)
    assert after["bytes"][1] - before["bytes"][1] >= 1000 * 3000
    assert after["list"][0] - before["list"][0] == 8


def test_containers_and_who_holds_them(start, py, tmp_path):
    target = start(Objects, py, tmp_path / "own")
    look = heap(target.pid)
    held = {row["held_by"]: row for row in look["containers"]}
    assert held["__main__.CACHE"]["items"] == 4000 and held["__main__.CACHE"]["type"] == "dict"
    assert held["__main__.QUEUE"]["items"] == 4000 and held["__main__.QUEUE"]["type"] == "deque"
    assert held["__main__.holder.table['deep']"]["items"] == 3000
    local, = [name for name in held if name and name.startswith("sleep() at heap.py:")]
    assert local.endswith(": batch") and held[local]["items"] == 7000
    assert held["__main__.kept[1]"]["type"] == "set" and held["__main__.kept[1]"]["items"] == 5000


def test_who_holds_a_type(start, any_py, tmp_path):
    target = start(Objects, any_py, tmp_path / "own")
    look = heap(target.pid, "-t", "Node")
    assert [(row["path"], row["count"]) for row in look["held"]] == [("__main__.CACHE[…]", 4000)]
    assert look["not_reached"] == 0
    look = heap(target.pid, "--type", "__main__.Slotted")
    assert [(row["path"], row["count"]) for row in look["held"]] == [("__main__.QUEUE[…]", 4000)]
    answer = probing(target.pid, "memory", "--heap", "-t", "Nodes")
    assert answer.returncode == 1 and "no object of type 'Nodes'" in answer.stderr


def of_core(path, *options):
    answer = probing("--core", path, "memory", "--heap", "-f", "json", *options)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_a_core_file_of_the_kernel(start, py, tmp_path):
    target = start(Objects, py, tmp_path / "own", cwd=str(tmp_path))
    cores.allow(target)
    living = heap(target.pid)
    dead = of_core(cores.dump_by_kernel(target, tmp_path))
    assert dead["pid"] == target.pid and dead["python"] == living["python"]
    assert abs(dead["objects"] - living["objects"]) <= living["objects"] / 1000
    assert by_name(dead)["Node"] == by_name(living)["Node"]
    assert ({row["held_by"] for row in dead["containers"][:5]} ==
            {row["held_by"] for row in living["containers"][:5]})


def test_a_core_file_of_gdb(start, any_py, tmp_path):
    target = start(Objects, any_py, tmp_path / "own")
    core = cores.dump_by_gdb(target, tmp_path)
    look = of_core(core, "-t", "Node")
    assert [(row["path"], row["count"]) for row in look["held"]] == [("__main__.CACHE[…]", 4000)]
    text = probing("--core", core, "memory", "--heap").stdout
    assert text.startswith("core of process %d" % target.pid) and "__main__.CACHE" in text


def test_what_is_no_core_file(tmp_path):
    (tmp_path / "text").write_text("no core")
    for path, options, said in ((tmp_path / "text", ["--heap"], "not a core file"),
                                (tmp_path / "none", ["--heap"], "No such file"),
                                (tmp_path / "text", [], "only memory --heap"),
                                (BIN, ["--heap"], "not a core file")):
        answer = probing("--core", str(path), "memory", *options)
        assert answer.returncode != 0 and said in answer.stderr, answer.stderr
    answer = probing("--core", BIN, "eval", "1")
    assert answer.returncode == 2 and "cannot look at a core file" in answer.stderr
    answer = probing("--core", BIN, str(os.getpid()), "memory", "--heap")
    assert answer.returncode == 2 and "no other beside it" in answer.stderr


def test_growth(start, any_py, tmp_path):
    target = start(Objects, any_py, tmp_path / "own")
    tool = subprocess.Popen([BIN, str(target.pid), "memory",
                             "--heap", "-w", "1", "--count", "2"], stdout=subprocess.PIPE,
                            env=ENV, encoding="utf-8")
    while "largest containers" not in tool.stdout.readline():
        pass
    target.grow()
    text = tool.communicate(timeout=60)[0]
    lines = {line.split()[-1]: line.split() for line in text.split("\n") if line.strip()}
    assert "growth in" in text
    assert lines["str"][1].startswith("+15,") and lines["float"][1] == "+15,000"


@pytest.mark.parametrize("kind", ["malloc", "debug"])
def test_other_allocators(start, any_py, tmp_path, kind):
    """Without pymalloc there are still the collector's lists and what they lead to."""
    target = start(Objects, any_py, tmp_path / "own", env={"PYTHONMALLOC": kind})
    found, own = by_name(heap(target.pid)), target.own()
    for name in ("Node", "Slotted", "list", "set", "function", "generator"):
        n = own[name][0]
        assert abs(found[name][0] - n) <= n / 100, (name, found[name], own[name])
    assert found["float"][0] >= 7000


def test_a_process_that_holds_the_gil(start, any_py):
    target = start(Script, any_py, "gil_hold.py")
    look = heap(target.pid)
    assert look["objects"] > 1000 and look["skipped"] == 0


def test_a_stopped_process(start, any_py, tmp_path):
    target = start(Objects, any_py, tmp_path / "own")
    os.kill(target.pid, signal.SIGSTOP)
    assert by_name(heap(target.pid))["Node"][0] == 4000


def test_a_process_that_allocates_all_the_time(start, py):
    target = start(Target, [py.command, "-c", """
import os
class Brief:
    def __init__(self): self.parts = [str(i) for i in range(20)]
kept = [Brief() for i in range(5000)]
os.write(1, b"ready %d\\n" % os.getpid())
i = 0
while True:
    kept[i % 5000] = Brief()
    i += 1
    other = {n: [n] for n in range(50)}
"""])
    for _ in range(5):
        look = heap(target.pid)
        assert look["skipped"] <= look["objects"] / 1000
        # Without a GIL blocks are used again later, so that more of them move during a look.
        slack = 1500 if py.free_threaded else 100
        assert 5000 - slack <= by_name(look)["Brief"][0] <= 5000 + slack
        assert 100000 - 20 * slack <= by_name(look)["str"][0] <= 115000 + 20 * slack


def test_text(start, any_py, tmp_path):
    target = start(Objects, any_py, tmp_path / "own")
    answer = probing(target.pid, "memory", "--heap", "--limit", "5")
    lines = answer.stdout.split("\n")
    assert answer.returncode == 0 and answer.stderr == ""
    assert lines[0].startswith("process %d  " % target.pid)
    assert "Python %s" % any_py.text_version in lines[0] and "without a stop" in lines[0]
    assert lines[1].split() == ["count", "bytes", "share", "type"]
    assert "more types" in lines[7] and lines[9] == "largest containers"
    assert max(len(line) for line in lines[1:]) < 120
    answer = probing(os.getpid(), "memory", "--heap", "-t", "dict")
    assert answer.returncode == 0 and "objects of type dict are held by" in answer.stdout


def test_interpreters_without_symbols(start, tmp_path):
    """A stripped interpreter names no static variable: its data is searched."""
    stripped = [py for py in interpreters.chosen() if py.minor <= (3, 11)
                and b".symtab" not in sections(py)]
    if not stripped:
        pytest.skip("no stripped interpreter here")
    look = heap(start(Objects, stripped[0], tmp_path / "own").pid)
    assert look["how"] == "arenas by a search of the data"
    assert by_name(look)["Node"][0] == 4000


def sections(py):
    path = py.facts["exe"]
    if py.facts["shared"]:
        path = os.path.join(py.facts["libdir"], py.facts["ldlibrary"])
    return subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE).stdout


def test_tables(start, node, any_py, tmp_path):  # noqa: F811
    target = start(Objects, any_py, tmp_path / "own")
    rows = node.rows("SELECT count, bytes FROM python.heap WHERE type = 'Node' "
                     "AND module = '__main__'", target.pid)
    assert [row["count"] for row in rows] == [4000]
    rows = node.rows("SELECT type, items FROM python.heap_containers "
                     "WHERE held_by = '__main__.CACHE'", target.pid)
    assert rows == [{"type": "dict", "items": 4000}]


def test_own_variables_however_small(start, node, py, tmp_path):  # noqa: F811
    """What holds memory of a device is a small list: the program's own are among the containers."""
    target = start(Objects, py, tmp_path / "own")
    rows = node.rows("SELECT type, items, held_by FROM python.heap_containers", target.pid)
    found = {row["held_by"]: (row["type"], row["items"]) for row in rows}
    assert found["__main__.FEW"] == ("list", 40)
    assert found["__main__.holder.few"] == ("set", 50)
