"""What an agent writes by itself: meta, status, python.memory, probing.audit; and what stays."""
import os
import shutil
import signal
import time

import pytest

import patience
import rings
from agents import Probed, computed
from harness import probing

pytestmark = pytest.mark.few

MEMORY = "python.memory"


@pytest.fixture(autouse=True)
def _known_version(request):
    if "py" in request.fixturenames and request.getfixturevalue("py").minor < (3, 6):
        pytest.skip("the agent is for 3.6 and later")


def inject(target, *settings):
    words = [word for setting in settings for word in ("-D", setting)]
    assert probing(target.pid, "inject", *words).returncode == 0


def rows_come(home, table, good=bool, seconds=patience.SECONDS):
    """The table's rows, as soon as they are good."""
    found = []

    def look():
        found[:] = rings.rows(home, table) if os.path.exists(home) else []
        return good(found)
    patience.until(look, seconds=seconds)
    return found


def test_who_it_is(any_py, start):
    env = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "job 7"}
    target = start(Probed, any_py, env=env)
    inject(target)
    home = target.home()
    meta = rings.lines(home, "meta")
    name, begin = os.path.basename(home).split("-")
    assert (meta["pid"], meta["start"]) == (name, begin)
    assert meta["format"] == "1" and meta["uid"] == str(os.getuid())
    assert meta["python"].startswith(any_py.text_version) and meta["command"].endswith("probed.py")
    assert (meta["rank"], meta["world_size"], meta["local_rank"]) == ("3", "8", "1")
    assert meta["job_id"] == "job 7"
    assert abs(int(meta["started_ns"]) / 1e9 - time.time()) < 20
    with open("/proc/sys/kernel/random/boot_id") as file:
        assert meta["boot_id"] == file.read().strip()
    patience.until(lambda: rings.lines(home, "status").get("collector.memory") == "on")
    assert rings.lines(home, "status")["agent.state"] == "running"
    assert os.stat(os.path.join(home, "meta")).st_mode & 0o777 == 0o600


def check_memory(py, target):
    """Whether the main thread sleeps or computes, the interpreter's own figures are there."""
    rows = rows_come(target.home(), MEMORY, lambda rows: any(row["blocks"] for row in rows)
                     and len(rows) > 3, 8)
    with open("/proc/%d/statm" % target.pid) as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2 ** 20
    for row in rows:
        assert abs(row["rss_mb"] - resident) < 20 and row["vms_mb"] >= row["rss_mb"]
        assert row["cuda_allocated_mb"] is None
    seen = [row for row in rows if row["blocks"]]
    assert seen[0]["blocks"] > 1000
    # A 3.6 without threads cannot be made to import gc.
    assert seen[0]["gc_gen0"] is not None or py.minor == (3, 6)
    gaps = [(b["timestamp"] - a["timestamp"]) / 1e9 for a, b in zip(rows, rows[1:])]
    assert all(gap > 0 for gap in gaps) and sorted(gaps)[len(gaps) // 2] < 0.5


def test_memory_of_a_busy_process(py, start):
    target = start(Probed, py, "busy")
    inject(target, "memory.interval=0.1")
    check_memory(py, target)


def test_memory_and_collections(py, start):
    target = start(Probed, py)
    inject(target, "memory.interval=0.1")
    check_memory(py, target)
    target.value("import gc")
    rows_come(target.home(), MEMORY, lambda rows: rows[-1]["gc_collections"] is not None)
    target.value("junk = [[n] for n in range(200000)]\n"
                 "for _ in range(5): count = gc.collect()")
    rows = rows_come(target.home(), MEMORY,
                     lambda rows: sum(row["gc_collections"] or 0 for row in rows) >= 5)
    longest = max(rows, key=lambda row: row["gc_max_ms"] or 0)
    assert 0 < longest["gc_max_ms"] <= longest["gc_ms"]
    assert "probing" in target.value("gc.callbacks")
    probing(target.pid, "eject")
    inject(target, "memory.collect=off")
    assert target.value("gc.callbacks") == "[]\n"
    assert not rings.rings(target.home(), MEMORY)


def test_switches(any_py, start):
    target = start(Probed, any_py)
    inject(target, "memory.interval=0.1", "memory.collect=off")
    home = target.home()
    assert rings.lines(home, "status")["collector.memory"] == "off"
    probing(target.pid, "config", "memory.collect=on")
    rows_come(home, MEMORY)
    probing(target.pid, "config", "agent.collect=off")
    patience.until(lambda: rings.lines(home, "status")["collector.memory"] == "off")
    count = len(rings.rows(home, MEMORY))
    assert rings.rings(home, MEMORY)[0].closed == 1
    patience.meanwhile(0.3)
    assert len(rings.rows(home, MEMORY)) == count
    probing(target.pid, "config", "agent.collect=on")
    rows_come(home, MEMORY, lambda rows: len(rows) > count)
    assert [ring.generation for ring in rings.rings(home, MEMORY)] == [0, 1]


def test_audit(any_py, start):
    target = start(Probed, any_py)
    inject(target)
    assert target.value("1 + 1") == "2\n"
    assert target.eval("1 / 0").returncode == 1
    assert target.eval("--timeout", "0.2", "import time\nwhile True: time.sleep(0.01)"
                       ).returncode == 5
    assert probing(target.pid, "config", "eval.timeout=9").returncode == 0
    assert probing(target.pid, "config", "eval.timeout").returncode == 0
    assert target.value("len(%r)" % ("ü" * 3000)) == "3000\n"
    rows = rings.rows(target.home(), "probing.audit")
    assert [(row["action"], row["result"]) for row in rows] == [
        ("eval", "ok"), ("eval", "error"), ("eval", "timeout"), ("config", "ok"), ("eval", "ok")]
    assert [row["detail"] for row in rows[:2]] == ["1 + 1", "1 / 0"]
    assert rows[3]["detail"].strip() == "eval.timeout=9" and rows[2]["ms"] > 150
    assert 2000 < len(rows[4]["detail"].encode()) <= 2048
    assert all(row["peer_uid"] == os.getuid() and row["peer_pid"] > 0 for row in rows)


def test_a_killed_process_still_answers(any_py, start):
    target = start(Probed, any_py)
    inject(target, "memory.interval=0.1")
    home = os.path.realpath(target.home())
    rows_come(home, MEMORY)
    assert target.value("loss") == "0.0234\n"
    target.stop()
    try:
        assert rings.rows(home, MEMORY)[-1]["rss_mb"] > 1
        assert rings.rows(home, "probing.audit")[0]["detail"] == "loss"
        assert rings.lines(home, "status")["agent.state"] == "running"
        # The next agent leaves it alone.
        other = start(Probed, any_py)
        inject(other)
        assert rings.rows(home, MEMORY)
    finally:
        shutil.rmtree(home)


def test_forked_child_writes_its_own(py, start):
    target = start(Probed, py)
    inject(target, "memory.interval=0.1")
    rows_come(target.home(), MEMORY)
    target.value("child = None; todo.append(fork)")
    patience.until(lambda: target.value("child") != "")
    with open("/proc/%d/task/%d/children" % (target.pid, target.pid)) as file:
        child = int(file.read().split()[0])
    try:
        patience.until(lambda: os.path.exists(target.home(child)))
        home = target.home(child)
        rows_come(home, MEMORY)
        assert rings.lines(home, "meta")["ppid"] == rings.lines(target.home(), "meta")["pid"]
        # One row an interval in each, on the whole: nobody writes into the other's.
        began = rings.rows(home, MEMORY)[0]["timestamp"]
        for place in (target.home(), home):
            rows_come(place, MEMORY, lambda rows: rows[-1]["timestamp"] > began + 1e9)
            times = [row["timestamp"] for row in rings.rows(place, MEMORY)]
            later = [time for time in times if time >= began]
            assert times == sorted(times), place
            assert len(later) <= (later[-1] - began) / 1e8 * 1.3 + 2, place
    finally:
        os.kill(child, signal.SIGKILL)


def test_exec_begins_a_new_generation(any_py, start):
    target = start(Probed, any_py, "exec")
    inject(target, "memory.interval=0.1")
    home = target.home()
    old = len(rows_come(home, MEMORY))
    target.eval("finish = True")
    target.read_ready(patience.SECONDS)
    inject(target, "memory.interval=0.1")
    assert target.home() == home
    first, second = patience.until(lambda: rings.rings(home, MEMORY),
                                   lambda both: len(both) == 2 and both[1].rows())
    assert len(first.rows()) >= old and second.generation == first.generation + 1


def test_eject_leaves_nothing_of_a_short_life(any_py, start):
    target = start(Probed, any_py)
    for _ in range(3):
        inject(target, "memory.interval=0.1")
        home = target.home()
        rows_come(home, MEMORY)
        assert probing(target.pid, "eject").returncode == 0
        assert not os.path.exists(home)
    assert target.value("loss") == "0.0234\n"
    assert target.end() == (0, "bye\n", "")
    assert not os.path.exists(home)


def test_many_ejects_keep_memory_flat(any_py, start):
    target = start(Probed, any_py)
    sizes = []
    for number in range(24):
        inject(target, "memory.interval=0.1")
        assert target.value("loss") == "0.0234\n"
        assert probing(target.pid, "eject").returncode == 0
        if number in (7, 23):
            with open("/proc/%d/statm" % target.pid) as file:
                sizes.append(int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE"))
    assert sizes[1] - sizes[0] < 1 << 20, sizes


def test_budget(any_py, start):
    target = start(Probed, any_py)
    inject(target, "store.budget_mb=1", "memory.interval=0.1")
    home = target.home()
    rows_come(home, MEMORY)
    patience.until(lambda: "store.budget_mb" in rings.lines(home, "status").get("store.note", ""))
    assert rings.rings(home, MEMORY)[0].capacity < 4096
    assert sum(os.path.getsize(os.path.join(home, name)) for name in rings.files(home)) < 1 << 20


def test_ticks_cost_nothing(any_py, start):
    """Rows ten times a second, and still no CPU time worth the name."""
    target = start(Probed, any_py)
    inject(target, "memory.interval=0.1")
    rows_come(target.home(), MEMORY)
    agent = [tid for tid in os.listdir("/proc/%d/task" % target.pid)
             if open("/proc/%d/task/%s/comm" % (target.pid, tid)).read() == "probing\n"][0]
    before = computed(target.pid, agent)
    patience.meanwhile(1)
    assert computed(target.pid, agent) - before < 0.01
