"""Tables that are made when asked for, against what other ways say."""
import json
import os
import re
import time

import pytest

import agents
import harness
import patience
from nodes import Node, gone

pytestmark = pytest.mark.few


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = Node(tmp_path_factory.mktemp("node"))
    yield made
    made.stop()


def same_frames(rows, thread):
    """Rows of one thread against a thread of `backtrace -f json`."""
    want = [(f["depth"], f["func"], f["file"], f["lineno"], f["frame_type"])
            for f in thread["frames"]]
    return [(r["depth"], r["func"], r["file"], r["lineno"], r["frame_type"])
            for r in rows] == want


def test_backtrace(node, py, shared):
    target = shared("simple.py")
    rows = node.rows("SELECT * FROM python.backtrace ORDER BY depth", target.pid)
    thread = harness.main_thread(harness.backtrace(target.pid))
    assert rows and same_frames(rows, thread)
    assert {(r["pid"], r["tid"], r["thread"]) for r in rows} == {
        (target.pid, target.pid, "MainThread")}
    assert {r["host"] for r in rows} == {os.uname().nodename}
    assert json.loads(rows[0]["locals"]) == {"depth": "21", "label": "'inner'", "total": "42"}


def test_stacks(node, py, shared):
    target = shared("simple.py")
    rows = node.rows("SELECT * FROM python.stacks ORDER BY tid, depth", target.pid)
    for thread in harness.backtrace(target.pid, "-a")["threads"]:
        of = [r for r in rows if r["tid"] == thread["tid"]]
        assert of and same_frames(of, thread)
        assert {(r["thread"], r["state"], r["holds_gil"]) for r in of} == {
            (thread["name"], thread["state"], thread["holds_gil"])}
    assert {r["thread"] for r in rows} == {"MainThread", "helper"}


def test_threads(node, py, shared):
    target = shared("simple.py")
    rows = node.rows("SELECT * FROM python.threads ORDER BY tid", target.pid)
    first, second = rows
    assert (first["tid"], first["is_main"], first["thread"]) == (target.pid, True, "MainThread")
    assert (first["top_func"], first["top_file"], first["top_line"]) == target.at("leaf", "leaf")
    assert (second["thread"], second["is_main"]) == ("helper", False)
    for row in rows:
        assert row["state"] in ("idle", "waiting") and row["wchan"]
        assert not row["holds_gil"] and not row["waits_gil"]
        with open("/proc/%d/task/%d/schedstat" % (target.pid, row["tid"])) as file:
            assert abs(row["cpu_ms"] - int(file.read().split()[0]) / 1e6) < 100


def test_threads_that_want_the_gil(node, py, start):
    if py.free_threaded:
        pytest.skip("there is no GIL to wait for")
    target = start(harness.Target, [py.command, os.path.join(harness.TARGETS, "many_busy.py"), "4"])
    waiting, holding, end = 0, 0, time.monotonic() + 10
    while (not waiting or not holding) and time.monotonic() < end:
        rows = node.rows("SELECT * FROM python.threads", target.pid)
        assert len(rows) == 4
        waiting += sum(r["waits_gil"] for r in rows)
        holding += sum(r["holds_gil"] for r in rows)
        assert not any(r["waits_gil"] and r["holds_gil"] for r in rows)
    assert holding and waiting


def test_without_a_target_all_processes(node, any_py, start):
    pids = {start(harness.Script, any_py, "simple.py").pid for _ in range(3)}
    rows = node.rows("SELECT pid, count(*) n FROM python.stacks GROUP BY pid")
    assert pids <= {r["pid"] for r in rows}
    both = ",".join(map(str, sorted(pids)[:2]))
    assert {r["pid"] for r in node.rows(
        "SELECT pid FROM python.threads WHERE pid IN (%s)" % both)} == set(sorted(pids)[:2])
    # A new one is seen at once, one that ended no more.
    new = start(harness.Script, any_py, "simple.py")
    assert new.pid in {r["pid"] for r in node.rows("SELECT pid FROM python.backtrace")}
    new.stop()
    assert new.pid not in {r["pid"] for r in node.rows("SELECT pid FROM python.backtrace")}


def test_exec_is_noticed(node, any_py, start, tmp_path):
    """What was learnt about an interpreter does not outlive it."""
    script = tmp_path / "again.py"
    script.write_text("import os, sys, time\n"
                      "def first():\n"
                      "    os.write(1, b'ready %d\\n' % os.getpid())\n"
                      "    while not os.path.exists(sys.argv[1]): time.sleep(0.05)\n"
                      "    os.execv(sys.executable, [sys.executable, __file__])\n"
                      "def second(): time.sleep(1000)\n"
                      "first() if len(sys.argv) > 1 else second()\n")
    go = tmp_path / "go"
    target = start(harness.Target, [any_py.command, str(script), str(go)])
    sql = "SELECT func FROM python.backtrace WHERE func IN ('first', 'second')"
    assert node.rows(sql, target.pid) == [{"func": "first"}]
    go.touch()
    patience.until(lambda: node.rows(sql, target.pid) == [{"func": "second"}])


def test_native_frames_on_request(node, any_py, start):
    target = start(harness.Script, any_py, "simple.py")
    sql = "SELECT DISTINCT frame_type FROM python.backtrace ORDER BY 1"
    assert node.rows(sql, target.pid) == [{"frame_type": "python"}]
    assert node("query", "SET probing.stacks.native = on").returncode == 0
    try:
        assert node.rows(sql, target.pid) == [{"frame_type": "native"}, {"frame_type": "python"}]
    finally:
        node("query", "SET probing.stacks.native = off")


def test_process(node, py, shared):
    target = shared("simple.py")
    row, = node.rows("SELECT * FROM system.process", target.pid)
    assert row["pid"] == target.pid and row["ppid"] == os.getpid()
    assert row["command"].endswith("simple.py") and row["threads"] == 2
    assert py.text_version.startswith(row["python_version"])
    assert row["attached"] is False and row["state"] == "waiting"
    with open("/proc/%d/statm" % target.pid) as file:
        rss = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2 ** 20
    assert abs(row["rss_mb"] - rss) < 1
    age = node.rows("SELECT epoch(now() - start_time) s FROM system.process", target.pid)[0]["s"]
    assert 0 <= age < 600 and 0 <= row["cpu_pct"] <= 200


def test_envs_without_secrets(node, any_py, start):
    target = start(harness.Script, any_py, "simple.py", env={
        "COLOUR": "green", "WANDB_API_KEY": "geheim", "DB": "pg://me:geheim@db/x", "RANK": "3"})
    rows = node.rows("SELECT name, value, rank FROM python.envs", target.pid)
    values = {r["name"]: r["value"] for r in rows}
    assert values["COLOUR"] == "green"
    assert values["WANDB_API_KEY"] == "***"
    assert values["DB"] == "pg://me:***@db/x"
    assert "geheim" not in json.dumps(rows)
    assert {r["rank"] for r in rows} == {3}


def test_agents(node, any_py, start):
    target = start(agents.Probed, any_py)
    assert harness.probing(target.pid, "inject").returncode == 0
    sql = "SELECT * FROM probing.agents WHERE role = 'agent' ORDER BY collector"
    patience.until(lambda: node.rows(sql, target.pid))
    rows = node.rows(sql, target.pid)
    assert rows[0]["collector"] == "agent" and rows[0]["state"] == "running"
    assert rows[0]["process"].startswith("%d-" % target.pid) and rows[0]["version"]
    assert "memory" in [r["collector"] for r in rows]
    assert node.rows("SELECT attached FROM system.process", target.pid) == [{"attached": True}]
    # One that has left no rows is not spoken of any more.
    patience.until(lambda: node.rows("SELECT 1 FROM python.memory LIMIT 1", target.pid))
    target.stop()
    assert [r["state"] for r in node.rows(sql, target.pid)][0] == "killed"


def test_node_in_agents(node):
    rows = node.rows("SELECT collector, state FROM probing.agents WHERE role = 'node'")
    states = {r["collector"]: r["state"] for r in rows}
    assert states["archive"] == "on"
    assert states["system.cpu"] == "on"


def test_process_that_cannot_be_read(node, start, tmp_path):
    """No rows, and a reason."""
    source = tmp_path / "python3.11"
    source.write_text("#!/bin/sh\necho ready $$\nwhile :; do sleep 1; done\n")
    source.chmod(0o755)
    target = start(harness.Target, [str(source)])
    assert node.rows("SELECT * FROM python.stacks", target.pid) == []
    rows = node.rows("SELECT * FROM probing.agents WHERE collector = 'stacks'", target.pid)
    assert [(r["pid"], r["state"]) for r in rows] == [(target.pid, "failed")]
    assert str(target.pid) in rows[0]["reason"]


def test_tables_and_columns(node):
    tables = {r["name"]: r for r in node.rows("SELECT * FROM probing.tables")}
    for name in ("python.backtrace", "python.stacks", "python.threads", "python.envs",
                 "system.process", "probing.agents", "probing.tables", "probing.columns",
                 "probing.cost", "probing.settings"):
        assert tables[name]["source"] == "live" and tables[name]["doc"], name
        assert tables[name]["rows"] is None
    assert tables["python.memory"]["source"] == "ring"
    columns = node.rows("SELECT \"column\", type, doc FROM probing.columns "
                        "WHERE name = 'python.backtrace' ORDER BY position")
    assert [(c["column"], c["type"]) for c in columns] == [
        ("depth", "BIGINT"), ("func", "VARCHAR"), ("file", "VARCHAR"), ("lineno", "BIGINT"),
        ("frame_type", "VARCHAR"), ("locals", "VARCHAR"), ("tid", "BIGINT"),
        ("thread", "VARCHAR"), ("end_lineno", "BIGINT"), ("col_offset", "BIGINT"),
        ("end_col_offset", "BIGINT"), ("arguments", "VARCHAR"), ("interpreter", "BIGINT"),
        ("collecting_garbage", "BOOLEAN"), ("shutting_down", "BOOLEAN"),
        ("host", "VARCHAR"), ("pid", "BIGINT"), ("rank", "BIGINT")]
    assert all(c["doc"] for c in columns)


def test_settings(node):
    rows = {r["name"]: r for r in node.rows("SELECT * FROM probing.settings")}
    assert rows["serve.idle"]["value"] == rows["serve.idle"]["default"] == "300"
    assert node("query", "SET probing.sample.interval = 2").returncode == 0
    changed, = node.rows("SELECT value FROM probing.settings WHERE name = 'sample.interval'")
    assert changed["value"] == "2"
    node("query", "SET probing.sample.interval = 1")
    wrong = node("query", "SET probing.sample.intervall = 2")
    assert wrong.returncode == 1 and "'sample.interval'" in wrong.stderr


def test_settings_of_a_process(node, any_py, start):
    target = start(agents.Probed, any_py)
    assert harness.probing(target.pid, "inject").returncode == 0
    assert node(target.pid, "query", "SET probing.eval.timeout = 77").returncode == 0
    assert harness.probing(target.pid, "config", "eval.timeout").stdout == "77\n"
    sql = "SELECT value FROM probing.settings WHERE name = 'eval.timeout'"
    assert node.rows(sql, target.pid) == [{"value": "77"}]
    assert node.rows(sql) == [{"value": "30"}]


def test_cost(node):
    rows = {r["what"]: r for r in node.rows("SELECT * FROM probing.cost")}
    assert rows["node"]["cpu_ms"] > 0 and 5 < rows["node"]["rss_mb"] < 500
    before = rows["node"]["queries"]
    node.rows("SELECT 1")
    assert node.rows("SELECT queries FROM probing.cost WHERE what = 'node'")[0]["queries"] > before
    assert re.match(r"\d", str(rows["system.cpu"]["rows"]))


def test_container(node, any_py, start, tmp_path):
    """Another pid and mount namespace: its tables are found, under the number it has out here."""
    if os.getuid() != 0:
        pytest.skip("needs root to make namespaces")
    inner = ("mount -t tmpfs tmpfs /dev/shm && exec %s -c 'import time; print(\"ready 0\", "
             "flush=True); time.sleep(1000)'" % any_py.command)
    target = start(harness.Target, ["unshare", "-m", "-p", "--fork", "--mount-proc", "--kill-child",
                                    "sh", "-c", inner])
    with open("/proc/%d/task/%d/children" % ((target.process.pid,) * 2)) as file:
        pid = int(file.read())
    assert harness.probing(pid, "inject").returncode == 0
    sql = "SELECT process, pid FROM probing.agents WHERE collector IN ('agent', 'node')"
    row, = node.rows(sql, pid)
    assert row["process"].startswith("1-") and row["pid"] == pid
    patience.until(lambda: node.rows("SELECT pid FROM python.memory LIMIT 1", pid))
    assert {r["pid"] for r in node.rows("SELECT pid FROM python.memory", pid)} == {pid}
    target.stop()
    assert gone(pid)
    # The folder went with its file system; what was mapped can still be read.
    assert node.rows("SELECT DISTINCT pid FROM python.memory", pid) == [{"pid": pid}]


def test_no_such_process(node):
    answer = node(999999, "query", "SELECT * FROM python.stacks")
    assert answer.returncode == 4, answer
    assert "no such process" in answer.stderr
