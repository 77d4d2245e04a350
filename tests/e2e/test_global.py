"""One statement over all machines means what it would mean with all rows in one place."""
import json
import math
import os
import subprocess
import sys
import time

import pytest

import clusters
import global_queries
import harness
import hosts
import package
import plain_engine

pytestmark = hosts.needed()
TOKEN = "5e" * 32
COUNT = int(os.environ.get("PROBING_TEST_GLOBAL", "60"))
FIRST = int(os.environ.get("PROBING_TEST_GLOBAL_FIRST", "0"))


class Cluster:
    """Three machines with two ranks each, which keep a table of facts."""

    def __init__(self, folder, **env):
        self.network = hosts.Network(folder)
        self.machines = [self.network.add(PROBING_TOKEN=TOKEN, PROBING_CLUSTER_INTERVAL="0.5",
                                          **env)
                         for _ in range(3)]
        self.ranks = []
        path = package.make(folder / "package")
        for number in range(6):
            host = self.machines[number // 2]
            job = {"RANK": str(number), "WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "2",
                   "MASTER_ADDR": self.machines[0].address, "MASTER_PORT": "29500",
                   "PYTHONPATH": path}
            rank = host.start(sys.executable, os.path.join(harness.TARGETS, "facts.py"), env=job,
                              stderr=subprocess.DEVNULL)
            assert rank.stdout.readline().startswith("ready")
            self.ranks.append(rank)
        first = self.machines[0]
        first.probing("cluster", "attach", "--no-start", self.machines[1].address)
        for host in self.machines[1:]:
            host.text("cluster", "attach", "--no-start", first.address)
        clusters.wait_for(lambda: clusters.all_alive(self.machines))

    def answer(self, sql, host=0, words=("query",)):
        """Rows as lists of values."""
        out = self.machines[host].text(*words, "-f", "ndjson", sql)
        return [list(json.loads(line).values()) for line in out.splitlines()]

    def stop(self):
        self.network.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    it = Cluster(tmp_path_factory.mktemp("cluster"))
    yield it
    it.stop()


def plain(value):
    """Numbers as such, however they are written."""
    if isinstance(value, bool) or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def key(row):
    return [(value is not None, isinstance(value, str), str(value) if isinstance(value, str) else
             round(float(value), 6) if value is not None else 0) for value in row]


def same(one, two):
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    return one == two


def equal(ours, theirs):
    ours, theirs = (sorted(([plain(value) for value in row] for row in rows), key=key)
                    for rows in (ours, theirs))
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(same, a, b)) for a, b in zip(ours, theirs))


@pytest.fixture(scope="module")
def together(cluster, tmp_path_factory):
    """together(sql): the engine alone, over all rows in one place."""
    folder = tmp_path_factory.mktemp("together")
    for number, host in enumerate(cluster.machines):
        host.text("query", "--local", "-o", folder / ("%d.parquet" % number),
                  "SELECT * FROM python.facts")
    first = ["CREATE SCHEMA python", "CREATE TABLE python.facts AS SELECT * FROM read_parquet("
             "'%s/*.parquet')" % folder]
    return lambda sql: plain_engine.rows(first + [sql])


def test_random_statements(cluster, together):
    """A generator's statements, each at one of the machines: equal to one engine over all rows."""
    assert together("SELECT count(*), count(DISTINCT rank) FROM python.facts") == [[1800, 6]]
    for seed in range(FIRST, FIRST + COUNT):
        sql = global_queries.statement(seed)
        ours = cluster.answer(sql, seed % 3)
        theirs = together(sql)
        assert equal(ours, theirs), (seed, sql, ours[:5], theirs[:5])


def test_traps(cluster, together):
    for number, sql in enumerate(global_queries.TRAPS):
        ours, theirs = cluster.answer(sql, number % 3), together(sql)
        assert equal(ours, theirs), (sql, ours[:5], theirs[:5])


def test_same_answer_everywhere(cluster):
    sql = "SELECT rank, host, count(*), avg(x), max(a) FROM python.facts GROUP BY ALL ORDER BY 1"
    answers = [cluster.answer(sql, number) for number in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert [row[:3] for row in answers[0]] == [
        [number, "node-" + "abc"[number // 2], 300] for number in range(6)]


def test_words_in_front(cluster):
    """`cluster query`, --cluster, ranks as targets, --local."""
    sql = "SELECT DISTINCT rank FROM python.facts ORDER BY 1"
    assert cluster.answer(sql, 1, ("cluster", "query")) == [[n] for n in range(6)]
    assert cluster.answer(sql, 1, ("query", "--cluster")) == [[n] for n in range(6)]
    assert cluster.answer(sql, 1, ("query", "--local")) == [[2], [3]]
    assert cluster.answer(sql, 1, ("ranks:1-2,5", "query")) == [[1], [2], [5]]
    assert cluster.answer(sql, 1, ("rank:4", "query")) == [[4]]
    assert cluster.answer(sql, 1, ("ranks:0-1@facts.py", "query")) == [[0], [1]]
    it = cluster.machines[0].probing("rank:9", "query", sql)
    assert it.returncode == 4 and "there are 0-5" in it.stderr, it


def test_other_tables(cluster):
    """Live tables, views and those that the node writes are of all machines, too."""
    tops = cluster.answer("SELECT rank, func FROM python.backtrace WHERE depth = 0 ORDER BY rank")
    assert tops == [[n, "main"] for n in range(6)]
    hosts_seen = cluster.answer("SELECT DISTINCT host FROM system.process ORDER BY 1")
    assert hosts_seen == [["node-a"], ["node-b"], ["node-c"]]
    assert cluster.answer("SELECT count(DISTINCT host) FROM memory_usage")[0][0] in (0, 1, 2, 3)
    assert cluster.answer("SELECT 1 + 1") == [[2]]
    it = cluster.machines[0].probing("query", "SELECT aa FROM python.facts")
    assert it.returncode == 1 and "no column 'aa'" in it.stderr and "^" in it.stderr, it


def test_ranks_for_commands(cluster):
    """backtrace, eval, config, memory of a rank, wherever it runs."""
    first = cluster.machines[0]
    for rank in (1, 4):
        assert "facts.py" in first.text("rank:%d" % rank, "backtrace")
        code = "import os; print(os.environ['RANK'])"
        assert first.text("rank:%d" % rank, "eval", code) == "%d\n" % rank
        assert "resident" in first.text("rank:%d" % rank, "memory")
    out = first.text("ranks:0-3", "eval", "import os; print('rank', os.environ['RANK'])")
    assert [line for line in out.splitlines() if line.startswith("rank ") and "·" not in line] == [
        "rank %d" % n for n in range(4)]
    first.text("ranks:2-4", "config", "memory.interval=2")
    assert "2" in first.text("rank:4", "config", "memory.interval")
    assert first.text("rank:5", "config", "memory.interval").split()[-1] == "1"


def test_ranks_that_nobody_has(cluster):
    """An answer of fewer ranks than were named says so, and by its exit code."""
    first = cluster.machines[0]
    sql = "SELECT DISTINCT rank FROM python.facts ORDER BY 1"
    for words in (("query", "-f", "csv", sql), ("eval", "1"), ("backtrace",)):
        it = first.probing("ranks:4-9", *words)
        assert it.returncode == 6 and "missing: ranks 6-9 " in it.stderr, (words, it)
    it = first.probing("ranks:4-9", "query", "-f", "csv", sql)
    assert it.stdout.split() == ["rank", "4", "5"]
    it = first.probing("ranks:0,3,77", "eval", "1")
    assert it.returncode == 6 and "missing: rank 77 " in it.stderr and "rank 3 ·" in it.stdout, it


def test_one_act_on_all(cluster):
    """All ranks at once, by rank; each reads all of stdin; what fails for one stops no other."""
    first = cluster.machines[0]
    started = time.time()
    out = first.text("cluster", "eval", "import time; time.monotonic() and __import__('select')"
                     ".select([], [], [], 2); 'done'", timeout=60)
    took = time.time() - started
    assert out.count("'done'") == 6
    assert took < 10, took  # one after the other it is 12 at least
    titles = [line for line in out.splitlines() if "·" in line]
    assert [title.split(" · ")[0] for title in titles] == ["rank %d" % n for n in range(6)]
    with open(os.path.join(first.home, "code.py"), "w") as file:
        file.write("import os\nprint('number', int(os.environ['RANK']) * 2)\n")
    with open(os.path.join(first.home, "code.py")) as file:
        it = first.probing("cluster", "eval", "-", stdin=file)
    assert [line for line in it.stdout.splitlines() if line.startswith("number")] == [
        "number %d" % (2 * n) for n in range(6)]
    it = first.probing("cluster", "eval", "import os\n1 // (int(os.environ['RANK']) - 2)")
    assert it.returncode == 1 and "failed for 1 of 6" in it.stderr, it
    assert it.stdout.count("rank ") == 6 and "ZeroDivisionError" in it.stdout + it.stderr
    told = json.loads(first.text("cluster", "memory", "--json"))
    assert [(one["rank"], one["host"]) for one in told] == [
        (n, "node-" + "abc"[n // 2]) for n in range(6)]
    assert "rank 3 · node-b" in first.text("cluster", "memory")


def test_flame_graph_of_all(cluster):
    """Samples of all ranks in one, and a rank beside the median of the others."""
    first = cluster.machines[0]

    def ranks():
        out = first.probing("cluster", "flamegraph", "--last", "10min", "-o", "-").stdout
        return {line.split(",")[0] for line in out.splitlines()}
    clusters.wait_for(lambda: ranks() == {"rank %d" % n for n in range(6)})
    out = first.text("ranks:1-2", "flamegraph", "--last", "10min", "-o", "-")
    assert "rank 1, process" in out and "node-b;<module> (facts.py" in out, out
    assert "rank 0" not in out and "rank 3" not in out
    out = first.text("cluster", "flamegraph", "--last", "10min", "--diff", "median", "rank:4",
                     "-o", os.path.join(first.home, "diff.html"))
    assert "compared with the median of 5 others" in out, out
    it = first.probing("cluster", "flamegraph", "--diff", "median", "1234")
    assert it.returncode == 2 and "rank:3" in it.stderr, it


def test_folded_stacks(cluster):
    """Equal stacks are one, with their ranks; what one rank alone does comes first."""
    first = cluster.machines[1]
    out = first.text("cluster", "backtrace")
    assert out.startswith("6 ranks on 3 nodes, 1 different stack\n") and "ranks 0-5" in out, out
    assert "facts.py" in out
    first.text("rank:4", "eval", "import threading, time; flag = threading.Event()")
    first.text("rank:4", "eval", "time.sleep = lambda s: flag.wait()")
    clusters.wait_for(lambda: "2 different" in first.text("cluster", "backtrace"))
    out = first.text("--cluster", "backtrace")
    one, rest = out.index("1 of 6: rank 4 on node-c"), out.index("5 of 6: ranks 0-3,5")
    assert one < rest and "next: probing rank:4 backtrace" in out, out
    told = json.loads(first.text("cluster", "backtrace", "--json"))
    assert [it["ranks"] for it in told["classes"]] == ["4", "0-3,5"]
    assert told["partial"] is False and "wait" in told["classes"][0]["frames"][0]
    assert "ranks 0-2" in first.text("ranks:0-2", "backtrace")
    by_sql = cluster.answer("SELECT stack_hash, sum(processes) FROM python.folded_stacks WHERE "
                            "ranks <> '' GROUP BY 1 ORDER BY 2")
    assert [row[1] for row in by_sql] == [1, 5] and by_sql[0][0] == told["classes"][0]["hash"]


def test_lists(cluster):
    """Processes and tables of all machines."""
    out = cluster.machines[2].text("cluster", "list", "-f", "json")
    assert [(it["rank"], it["host"]) for it in json.loads(out)] == [
        (n, "node-" + "abc"[n // 2]) for n in range(6)]
    rows = {it["name"]: it["rows"] for it in json.loads(
        cluster.machines[2].text("cluster", "tables", "-f", "json"))}
    assert rows["python.facts"] == 1800
    assert cluster.machines[0].text("cluster", "web").startswith("http://127.0.0.1:")
    assert cluster.machines[0].probing("rank:1", "top").returncode == 2


def test_too_much(cluster):
    """Rows that would be too many are refused with how many bytes they are; aggregates are not."""
    first = cluster.machines[0]
    first.text("config", "cluster.max_mb=1")
    for rank in cluster.machines:
        rank.text("ranks:%d" % (2 * cluster.machines.index(rank)), "eval",
                  "import random; t = probing.table('noise', {'v': float});"
                  "[t.append(random.random()) for _ in range(60000)]; None")
    it = first.probing("query", "SELECT count(DISTINCT v) FROM python.noise")
    assert it.returncode == 1 and "refused" in it.stderr and "cluster.max_mb" in it.stderr, it
    assert "MB" in it.stderr and not it.stdout, it
    assert cluster.answer("SELECT count(*) FROM python.noise WHERE v >= 0") == [[180000]]
    first.text("config", "cluster.max_mb=256")
    assert cluster.answer("SELECT count(DISTINCT v) > 179000 FROM python.noise") == [[True]]


def test_missing_node(cluster):
    """A machine that is cut off, one whose node hangs: named, with an exit code of its own."""
    first, second, third = cluster.machines
    sql = "SELECT host, count(*) FROM python.facts GROUP BY 1 ORDER BY 1"
    third.pull()
    it = first.probing("query", "--timeout", "10", "-f", "csv", sql)
    assert it.returncode == 6 and "node-c" in it.stderr and "2 of 3 nodes" in it.stderr, it
    assert it.stdout.splitlines()[1:] == ["node-a,600", "node-b,600"]
    third.pull(there=True)
    clusters.wait_for(lambda: clusters.all_alive(cluster.machines))
    assert len(cluster.answer(sql)) == 3
    supervisor = second.text("serve", "--status").split()[1].rstrip(",")
    pid = second.run("pgrep", "-P", supervisor).stdout.split()[0]
    second.run("kill", "-STOP", pid)
    it = first.probing("query", "--timeout", "10", "-f", "csv", sql)
    second.run("kill", "-CONT", pid)
    assert it.returncode == 6 and "node-b" in it.stderr, it
    assert it.stdout.splitlines()[1:] == ["node-a,600", "node-c,600"]
    clusters.wait_for(lambda: clusters.all_alive(cluster.machines))
    assert len(cluster.answer(sql)) == 3
