"""A lake that many nodes write their history to: rows exactly once, whoever is killed when."""
import glob
import os
import time

import pytest

import patience
import plain_engine
from nodes import Node
from numbering import Numbers, kill_node

FAST = {"PROBING_HISTORY_DELAY": "0.2", "PROBING_LAKE_DELAY": "0.2", "PROBING_LAKE_MERGE": "0.5"}
COLUMNS = "count(*), count(DISTINCT n), min(n), max(n)"


def parts(lake):
    return glob.glob(os.path.join(lake, "python.numbers", "date=*", "hour=*", "part-*.parquet"))


def numbers(lake, target, where="true"):
    """What any reader of Parquet sees of a process: rows, different rows, first and last number."""
    if not parts(lake):
        return [0, 0, None, None]
    return plain_engine.first_row(
        "SELECT %s FROM read_parquet('%s/python.numbers/*/*/part-*.parquet', "
        "hive_partitioning = true) WHERE process = '%s' AND %s" % (COLUMNS, lake, target.id, where))


def whole(written):
    return [written, written, 0, written - 1]


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def test_rows_come_to_the_lake_once(any_py, tmp_path, lake):
    node = Node(tmp_path / "one", PROBING_LAKE_PATH=lake, **FAST)
    target = None
    try:
        node("serve")
        target = Numbers(any_py, node, tmp_path, rate=4000, rows=8192)
        target.wait_for(13000)
        written = target.halt()
        patience.until(lambda: numbers(lake, target)[0] >= written)
        assert numbers(lake, target) == whole(written)
        patience.meanwhile(1)
        assert numbers(lake, target) == whole(written)
        assert numbers(lake, target, "pid = %d AND host = '%s'"
                       % (target.pid, os.uname().nodename)) == whole(written)
        for path in parts(lake):
            names = path[len(lake) + 1:].split(os.sep)
            assert [name.partition("=")[0] for name in names[1:3]] == ["date", "hour"]
            assert len(names) == 4
        row, = node.rows("SELECT state, reason FROM probing.agents WHERE collector = 'lake'")
        assert row["state"] == "on" and not row["reason"], row
        # The same views, and the same tables, over the lake alone.
        answer = node("--store", lake, "query", "-f", "csv",
                      "SELECT %s, count(DISTINCT host), min(pid) FROM python.numbers WHERE pid = %d"
                      % (COLUMNS, target.pid))
        assert answer.stdout.splitlines()[1] == "%d,%d,0,%d,1,%d" % (
            written, written, written - 1, target.pid)
        assert node("--store", lake, "query", "SELECT * FROM memory_usage").returncode == 0
        old = node("--store", lake, "query", "--until", "3d", "-f", "csv",
                   "SELECT count(*) FROM memory_usage")
        assert old.stdout.split() == ["count(*)", "0"], old
    finally:
        if target:
            target.stop()
        node.stop()


def by_node(lake, target):
    """The same for each node that wrote: two on one machine both keep what is there."""
    names = plain_engine.rows([
        "SELECT DISTINCT regexp_replace(_batch, '^[0-9]+-', '') FROM "
        "read_parquet('%s/python.numbers/*/*/part-*.parquet')" % lake]) if parts(lake) else []
    return [numbers(lake, target, "_batch LIKE '%%-%s'" % name)
            for name, in names]


def test_two_nodes_write_and_merge_at_once(any_py, tmp_path, lake):
    nodes = [Node(tmp_path / name, PROBING_LAKE_PATH=lake, **FAST) for name in ("one", "two")]
    target = None
    try:
        for node in nodes:
            node("serve")
        target = Numbers(any_py, nodes[0], tmp_path, rate=3000, rows=8192)
        target.wait_for(6000)
        written = target.halt()
        patience.until(lambda: numbers(lake, target)[0] >= 2 * written)
        assert by_node(lake, target) == [whole(written)] * 2
        patience.until(lambda: not glob.glob(lake + "/.waiting/python.numbers/*"))
        assert not glob.glob(lake + "/.waiting/python.numbers/*")
    finally:
        if target:
            target.stop()
        for node in nodes:
            node.stop()


def test_killed_in_the_middle(any_py, tmp_path, lake):
    """kill -9 at many moments of handing over and merging: no row twice, none missing."""
    node = Node(tmp_path / "one", PROBING_LAKE_PATH=lake, **dict(
        FAST, PROBING_LAKE_DELAY="0.1", PROBING_LAKE_MERGE="0.1", PROBING_HISTORY_DELAY="0.1"))
    target = None
    try:
        node("serve")
        target = Numbers(any_py, node, tmp_path, rate=2000, rows=65536)
        for i in range(12):
            time.sleep(0.3 + 0.037 * i)
            kill_node(node)
            node("serve")
        written = target.halt()
        patience.until(lambda: numbers(lake, target)[0] >= written)
        assert numbers(lake, target) == whole(written)
        patience.until(lambda: not glob.glob(lake + "/.waiting/python.numbers/*"))
        assert not glob.glob(lake + "/.waiting/python.numbers/*"), "what was left is taken up"
        assert numbers(lake, target) == whole(written)
    finally:
        if target:
            target.stop()
        node.stop()
