"""Peers that have the token and answer nonsense: named, counted; the rest is right, none falls."""
import json
import os
import random
import subprocess
import sys

import pytest

import package
from many_nodes import TOKEN, Asker, Others
from ranks import free_port

SQL = ("SELECT host, count(*) AS n, sum(v) AS s FROM python.numbers WHERE host LIKE 'sim-%' "
       "GROUP BY host ORDER BY host")
ROWS = "SELECT count(DISTINCT v) AS n FROM python.numbers WHERE host LIKE 'sim-%'"
VIEW = ("CREATE OR REPLACE VIEW python.numbers AS SELECT now() AS timestamp, "
        "{i} * 1000 + n AS v, 'sim-00{i}' AS host, 7 AS pid, {i} AS rank FROM range(500) AS t(n)")
TARGET = ("import probing, time; probing.enable(); t = probing.table('numbers', {'v': int}); "
          "t.append(1); print('ready', flush=True); time.sleep(100000)")


@pytest.fixture
def cluster(tmp_path, request):
    asker = Asker(tmp_path / "node", PROBING_TOKEN=TOKEN, PROBING_CLUSTER_INTERVAL="0.5")
    others = Others(tmp_path, 4, free_port() + 100, [VIEW],
                    claims=getattr(request, "param", None))
    target = subprocess.Popen(
        [sys.executable, "-c", TARGET], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=package.make(tmp_path / "package"), **asker.env))
    try:
        assert target.stdout.readline() == b"ready\n"
        asker.attach(others, "127.0.0.1:%d" % free_port())
        yield asker, others
    finally:
        others.stop()
        target.kill()
        target.wait()
        target.stdout.close()
        asker.stop()


def hosts_of(it):
    return [row["host"] for row in json.loads(it.stdout)]


def test_answers_that_are_none(cluster):
    """Bytes that are no Parquet, cut off, or changed here and there."""
    asker, others = cluster
    part, = asker.prepare(others, "cluster", "query", "-f", "json", SQL)
    it = asker("cluster", "query", "-f", "json", SQL)
    assert it.returncode == 0 and hosts_of(it) == ["sim-00%d" % n for n in range(4)], it
    path = os.path.join(part, "2.parquet")
    with open(path, "rb") as file:
        good = file.read()
    server = asker.server()
    refused = asker.refused()
    for bad in (b"", b"PAR1", b"z" * 5000, good[:-20], good[:len(good) // 2], good[:4] + good[-8:]):
        with open(path, "wb") as file:
            file.write(bad)
        it = asker("cluster", "query", "-f", "json", SQL)
        assert it.returncode == 6 and "sim-002 (its answer makes no sense)" in it.stderr, (bad, it)
        assert hosts_of(it) == ["sim-000", "sim-001", "sim-003"], (bad, it)
    assert asker.refused() > refused
    dice = random.Random(4)
    for _ in range(40):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 12)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        with open(path, "wb") as file:
            file.write(bad)
        it = asker("cluster", "query", "-f", "json", SQL)
        assert it.returncode in (0, 1, 6), it
        if it.returncode == 6:
            assert hosts_of(it) == ["sim-000", "sim-001", "sim-003"], it
    assert asker.server() == server


def test_answers_that_are_too_long(cluster):
    """More than is permitted is refused with a reason, before it is all there."""
    asker, others = cluster
    part, = asker.prepare(others, "cluster", "query", "-f", "json", ROWS)
    it = asker("cluster", "query", "-f", "json", ROWS)
    assert json.loads(it.stdout) == [{"n": 2000}], it
    with open(os.path.join(part, "1.parquet"), "wb") as file:
        file.truncate(700 << 20)
    it = asker("cluster", "query", "-f", "json", ROWS)
    assert it.returncode == 1 and "cluster.max_mb" in it.stderr and not it.stdout, it
    left = os.path.join(asker.home, "..")
    assert sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(left)
               for name in names if name.startswith("global-")) == 0


def test_nodes_that_hang(cluster):
    """One hung, one gone, one slow: within the time, named, and the rest is right."""
    asker, others = cluster
    asker.prepare(others, "cluster", "query", "-f", "json", SQL)
    for number, mode in ((0, "hang"), (1, "gone"), (3, "slow")):
        others.mode(number, mode)
    it = asker("cluster", "query", "--timeout", "4", "-f", "json", SQL)
    assert it.returncode == 6 and hosts_of(it) == ["sim-002"], it
    for number in (0, 1, 3):
        assert "sim-00%d" % number in it.stderr, it


@pytest.mark.parametrize("cluster", [{2: "3,8-12,16-23"}], indirect=True)
def test_ranks_of_others(cluster):
    """Who says that it runs the ranks of another displaces nobody, and is not silently added."""
    asker, others = cluster
    claimed = "ranks 3,8-12 of train.py at sim-000 (127.0.0.1:%d), sim-001 (127.0.0.1:%d), " \
              "sim-002 (127.0.0.1:%d)" % tuple(others.port + n for n in range(3))
    asker.prepare(others, "cluster", "query", "-f", "json", SQL)
    it = asker("cluster", "query", "-f", "json", SQL)
    assert it.returncode == 0 and claimed in it.stderr, it
    assert hosts_of(it) == ["sim-00%d" % n for n in range(4)], it
    asker.prepare(others, "ranks:0-7@train.py", "query", "-f", "json", SQL)
    it = asker("ranks:0-7@train.py", "query", "-f", "json", SQL)
    assert "rank 3 of train.py at sim-000" in it.stderr and "sim-001" not in it.stderr, it
    assert hosts_of(it) == ["sim-000", "sim-002"], it
    asker.prepare(others, "ranks:24-31@train.py", "query", "-f", "json", SQL)
    it = asker("ranks:24-31@train.py", "query", "-f", "json", SQL)
    assert it.returncode == 0 and "claimed" not in it.stderr and hosts_of(it) == ["sim-003"], it
    known = {one["host"]: one["jobs"][0]["ranks"] for one in json.loads(
        asker("cluster", "nodes", "-f", "json").stdout)["members"] if one["jobs"]}
    assert known["sim-000"] == "0-7" and known["sim-002"] == "3,8-12,16-23", known
    it = asker("rank:3@train.py", "eval", "1")
    assert "rank 3 of train.py at sim-000" in it.stderr, it
