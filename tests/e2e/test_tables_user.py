"""Tables of the program itself: probing.table(), span(), event()."""
import json
import os
import shutil
import subprocess
import textwrap

import pytest

import family
import harness
import package
import patience
import rings
from agents import Probed
from harness import probing

SCRIPT = os.path.join(harness.TARGETS, "tables.py")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return package.make(tmp_path_factory.mktemp("package"))


@pytest.fixture(autouse=True)
def _usable(request):
    if "py" in request.fixturenames:
        py = request.getfixturevalue("py")
        if py.minor < (3, 6) or py.wrapped:
            pytest.skip("no package there")


class Job(harness.Target):
    """tests/targets/tables.py."""

    def __init__(self, py, folder, tmp_path, env=None):
        self.end_file = str(tmp_path / "end")
        super().__init__([py.command, SCRIPT, self.end_file],
                         env=dict(env or {}, PYTHONPATH=folder))
        self.home = package.home(self.pid)

    def end(self):
        """Number of steps that it made."""
        with open(self.end_file, "w"):
            pass
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, err) == (0, b""), err
        return int(out.split()[1])


def rows_of(home, table, generation):
    """The rows of one ring, once there are some."""
    found = []

    def look():
        found[:] = [ring for ring in rings.rings(home, table) if ring.generation == generation]
        return found and len(found[0].rows()) >= 20
    patience.until(look)
    return found[0].rows()


def check_rows(home, generation=0):
    steps = rows_of(home, "python.steps", generation)
    numbers = [row["step"] for row in steps]
    assert numbers == list(range(numbers[0], numbers[0] + len(steps)))
    times = [row["timestamp"] for row in steps]
    assert times == sorted(times)
    for row in steps:
        assert row["loss"] == 1.0 / (row["step"] + 1) and row["phase"] == "train"
        assert row["good"] == (row["step"] % 2 == 0)
    spans = rows_of(home, "python.spans", generation)
    inner = [row for row in spans if row["name"] == "work"]
    outer = {row["span_id"]: row for row in spans if row["name"] == "step"}
    pairs = [(row, outer[row["parent_id"]]) for row in inner if row["parent_id"] in outer]
    assert len(pairs) > 5
    for one, around in pairs:
        assert (one["depth"], around["depth"]) == (1, 0)
        assert 1.0 <= one["duration_ms"] <= around["duration_ms"]
        assert around["timestamp"] <= one["timestamp"]
        assert json.loads(one["attrs"]) == {"kind": "inner"} and one["error"] is None
    event = rows_of(home, "python.events", generation)[-1]
    assert event["name"] == "half" and event["span_id"] > 0 and event["tid"] == one["tid"]
    assert list(json.loads(event["attrs"])) == ["step"]
    return numbers[-1]


def test_injected_from_outside(py, folder, tmp_path, start):
    """Calls that did nothing write as soon as an agent comes, and nothing once it is gone."""
    job = start(Job, py, folder, tmp_path)
    for generation in range(2):
        assert probing(job.pid, "inject").returncode == 0
        check_rows(job.home, generation)
        assert probing(job.pid, "eject").returncode == 0
        steps = rings.rings(job.home, "python.steps")
        assert steps[-1].closed == 1 and rings.lines(job.home, "status")["agent.state"] == "ejected"
    assert [ring.generation for ring in steps] == [0, 1]
    before = len(rings.rows(job.home, "python.steps"))
    assert job.end() > before
    assert len(rings.rows(job.home, "python.steps")) == before
    shutil.rmtree(job.home)


def test_imported_after_injection(py, folder, start):
    """The package finds the agent that is there, and its settings."""
    target = start(Probed, py, env={"PYTHONPATH": folder})
    assert probing(target.pid, "inject", "-D", "store.budget_mb=1").returncode == 0
    assert target.value("import probing; probing.is_enabled()") == "True\n"
    target.value("t = probing.table('late', {'n': int}); t.append(5); probing.event('late')")
    ring, = rings.rings(target.home(), "python.late")
    assert [row["n"] for row in ring.rows()] == [5] and ring.capacity < 65536
    assert len(rings.rows(target.home(), "python.events")) == 1
    assert probing(target.pid, "eject").returncode == 0
    ring, = rings.rings(target.home(), "python.late")
    assert ring.closed == 1 and len(ring.rows()) == 1
    shutil.rmtree(target.home())


def test_from_the_start_to_the_end(py, folder, tmp_path, start):
    """Every row is there, and stays when the process ends in good order."""
    env = {"PROBING": "1", "PROBING_QUIET": "1"}
    code = "import runpy, sys; from probing import _hook; sys.argv[:] = sys.argv[1:]; " \
           "runpy.run_path(sys.argv[0], run_name='__main__')"
    job = start(harness.Target, [py.command, "-c", code, SCRIPT, str(tmp_path / "end")],
                env=dict(env, PYTHONPATH=folder))
    home = package.home(job.pid)
    check_rows(home)
    (tmp_path / "end").write_text("")
    out, err = job.process.communicate(timeout=60)
    assert err == b""
    assert [row["step"] for row in rings.rows(home, "python.steps")] \
        == list(range(int(out.split()[1])))
    assert rings.lines(home, "status")["agent.state"] == "ended"
    assert not os.path.exists(os.path.join(home, "control"))
    shutil.rmtree(home)


def test_killed(any_py, folder, tmp_path, start):
    job = start(Job, any_py, folder, tmp_path)
    assert probing(job.pid, "inject").returncode == 0
    last = check_rows(job.home)
    job.stop()
    assert rings.rows(job.home, "python.steps")[-1]["step"] >= last
    shutil.rmtree(job.home)


def run(py, folder, code, *args):
    """What the code prints; it finds `home` and the module rings."""
    head = ("import os, sys; sys.path.insert(0, %r); import package, probing, rings; "
            "home = package.home(os.getpid())\n" % harness.HERE)
    tail = "\nprobing.disable(); import shutil; shutil.rmtree(home, True)\n"
    done = subprocess.run([py.command, "-W", "error", "-c", head + textwrap.dedent(code) + tail]
                          + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                          env=family.environment({"PYTHONPATH": folder}))
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    return done.stdout.decode()


def test_values(py, folder):
    out = run(py, folder, """
        import datetime
        day = datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)
        t = probing.table("kinds", {"i": int, "f": float, "b": bool, "s": str, "t": "time",
                                    "x": "text"})
        t.append(1, 2.5)                                  # nobody listens yet
        probing.enable()
        t.append(-5, 2, 1, "word", day, "free \\u00fc text")
        t.append(x="only")
        t.append(3.0, 10 ** 30, [], 7, 1577923200, None)
        t.append(1 << 63, "no", None, "\\udc80", "no", 5)  # nothing of it fits
        t.append(f=float("nan"), t=1577923200.5, i=True)
        t.append(t=1577923200000000000)
        for row in rings.rows(home, "python.kinds"):
            assert row.pop("timestamp") > 1.7e18
            print(sorted((key, value) for key, value in row.items() if value is not None))
        note = rings.lines(home, "status").get("store.note")
        """)
    day = 1577923200 * 10 ** 9
    assert out.splitlines() == [
        repr([("b", True), ("f", 2.0), ("i", -5), ("s", "word"), ("t", day),
              ("x", "free ü text")]),
        repr([("x", "only")]),
        repr([("b", False), ("f", 1e30), ("i", 3), ("s", "7"), ("t", day)]),
        repr([]),
        repr([("f", float("nan")), ("i", 1), ("t", day + 500000000)]),
        repr([("t", day)])]


def test_own_timestamp(any_py, folder):
    assert run(any_py, folder, """
        probing.enable()
        t = probing.table("mine.x", {"timestamp": "time", "n": int})
        t.append(1577923200.0, 1)
        t.append(None, 2)
        t.append(n=3)
        rows = rings.rows(home, "mine.x")
        print(rows[0]["timestamp"], [row["n"] for row in rows], rows[2]["timestamp"] > 1.7e18)
        """) == "1577923200000000000 [1, 2, 3] True\n"


def test_wrong_calls(any_py, folder):
    """The same complaints whether an agent runs or not."""
    out = run(any_py, folder, """
        t = probing.table("good", {"a": int, "b": str}, rows=100, doc="about")
        assert probing.table("python.good", {"a": "int", "b": "str"}) is t
        print(t, t.name)
        def fails(call):
            try:
                call()
            except (TypeError, ValueError) as error:
                print(type(error).__name__ + ":", error)
        for turn in range(2):
            fails(lambda: t.append(1, 2, 3))
            fails(lambda: t.append(1, c=2))
            fails(lambda: t.append(1, a=2))
            fails(lambda: probing.span())
            fails(lambda: probing.span(3))
            fails(lambda: probing.event(3))
            fails(lambda: probing.span("x")(3))
            print(probing.enable() if not turn else "")
        for name, columns in (("good", {"a": int}), ("Bad", {"a": int}), ("memory", {"a": int}),
                              ("probing.x", {"a": int}), ("x", {"rank": int}), ("x", {"a": list}),
                              ("x", {}), ("x", {"A": int}), ("x", {"timestamp": int})):
            fails(lambda: probing.table(name, columns))
        """)
    part = """\
        TypeError: 3 values for the 2 columns of table python.good
        TypeError: no column 'c' in table python.good
        TypeError: two values for column 'a'
        TypeError: span() takes a name, and attributes by name
        TypeError: the name of a span is a str
        TypeError: event() takes a name, a str, and attributes by name
        TypeError: a span is a context manager, or decorates one function
        """
    end = """\
        ValueError: table python.good exists with other columns
        ValueError: table 'Bad': a name is made of a-z, 0-9 and _, with one "." behind the schema, \
and has at most 63 characters
        ValueError: table python.memory: the name is taken
        ValueError: table probing.x: the name is taken
        ValueError: column rank: every row gets one of this name anyway
        ValueError: column a: list is none of int, float, bool, str, "time", "text"
        ValueError: table python.x: it has 1 to 64 columns
        ValueError: column 'A': a name is made of a-z, 0-9 and _ and has at most 39 characters
        ValueError: column timestamp: its type is "time"
        """
    first = "<probing table python.good> python.good\n"
    assert out == first + textwrap.dedent(part) + "True\n" + textwrap.dedent(part) + "\n" \
        + textwrap.dedent(end)


def test_spans(py, folder):
    out = run(py, folder, """
        import asyncio, json
        probing.enable()

        @probing.span
        def plain(n): return n + 1

        @probing.span("generator", size=2)
        def generator(n):
            got = yield n
            return got

        @probing.span("waiting")
        async def waiting(): await asyncio.sleep(0.01)

        print(plain(1), plain.__name__, probing.span("x")(max)(3, 4))
        print(list(generator(5)))
        loop = asyncio.new_event_loop(); loop.run_until_complete(waiting()); loop.close()
        some = {"d": True, "e": "q\\"\\n", "f": [1], "g": 1e999}
        with probing.span("attributes", a=1, b=2.5, c=None, **some) as s:
            s.set(b=3, late="yes")
        try:
            with probing.span("failing"):
                raise KeyError("x")
        except KeyError:
            pass
        big = {"k%d" % n: "v" * 400 for n in range(20)}
        with probing.span("large", **big): pass
        once = probing.span("twice")
        for _ in range(2):
            with once: pass
        for row in rings.rows(home, "python.spans"):
            large = row["name"] == "large" and len(json.loads(row["attrs"]))
            print(row["name"], row["depth"], row["parent_id"], row["error"], large or row["attrs"])
        """)
    assert out.splitlines() == [
        "2 plain 4", "[5]", "plain 0 None None None", "x 0 None None None",
        'generator 0 None None {"size": 2}', "waiting 0 None None None",
        'attributes 0 None None {"a": 1, "b": 3, "c": null, "d": true, "e": "q\\"\\u000a", '
        '"f": "[1]", "g": null, "late": "yes"}',
        "failing 0 None KeyError None", "large 0 None None 4", "twice 0 None None None",
        "twice 0 None None None"]


def test_threads(any_py, folder):
    """Many threads at one table: each row once, each thread's in order; spans apart."""
    out = run(any_py, folder, """
        import threading
        probing.enable()
        t = probing.table("many", {"who": int, "n": int})
        def work(who):
            for n in range(4000):
                t.append(who, n)
                with probing.span("outer"):
                    with probing.span("inner"): pass
        threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        rows = rings.rows(home, "python.many")
        print(len(rows), rings.rings(home, "python.many")[0].dropped)
        for who in range(8):
            assert [row["n"] for row in rows if row["who"] == who] == list(range(4000))
        spans = rings.rows(home, "python.spans")
        print({(row["name"], row["depth"]) for row in spans} == {("outer", 0), ("inner", 1)},
              len({row["tid"] for row in spans}), len({row["span_id"] for row in spans}))
        """)
    assert out.splitlines() == ["32000 0", "True 8 64000"]


def test_fork(py, folder):
    """A child has tables of its own, or none."""
    out = run(py, folder, """
        import time
        t = probing.table("forked", {"who": int})
        probing.enable(agent_follow_forks=len(sys.argv) > 1)
        t.append(os.getpid())
        if sys.version_info >= (3, 15):  # counts the agent's thread before it forks, and warns
            import warnings; warnings.simplefilter("ignore", DeprecationWarning)
        with probing.span("open"):
            child = os.fork()
            if child == 0:
                end = time.monotonic() + 30
                while time.monotonic() < end:
                    t.append(os.getpid())
                    own = package.home(os.getpid())
                    if len(sys.argv) == 1 or rings.rows(own, "python.forked"):
                        break
                    time.sleep(0.01)
                with probing.span("in child"): pass
                good = {row["who"] for row in rings.rows(own, "python.forked")} == {os.getpid()}
                good = good and rings.rows(own, "python.spans")[-1]["tid"] == os.getpid()
                import shutil; shutil.rmtree(own, True)
                os._exit(good if len(sys.argv) > 1 else os.path.exists(own))
        print(os.waitpid(child, 0)[1] >> 8)
        print({row["who"] for row in rings.rows(home, "python.forked")} == {os.getpid()},
              [row["name"] for row in rings.rows(home, "python.spans")])
        """, "follow")
    assert out.splitlines() == ["1", "True ['open']"]


def test_budget_and_loss(any_py, folder):
    """A table that does not fit is smaller; a full one keeps the newest rows."""
    out = run(any_py, folder, """
        os.environ["PROBING_STORE_BUDGET_MB"] = "2"
        probing.enable()
        tables = [probing.table("t%d" % n, {"a": int, "s": str}) for n in range(40)]
        for n in range(3000):
            for table in tables: table.append(n, "x")
        sizes = [os.path.getsize(os.path.join(home, name)) for name in rings.files(home)]
        print(sum(sizes) < 2 << 20)
        first = rings.rings(home, "python.t0")[0]
        kept = min(3000, first.capacity)
        print([row["a"] for row in first.rows()] == list(range(3000 - kept, 3000)))
        import time
        end = time.monotonic() + 30
        while "store.note" not in rings.lines(home, "status") and time.monotonic() < end:
            time.sleep(0.05)
        print("store.budget_mb" in rings.lines(home, "status")["store.note"])
        """)
    assert out.splitlines() == ["True", "True", "True"]
