"""python.comm against what two ranks have written down themselves."""
import importlib.util
import os
import re
import sys
import time

import pytest

import harness
import ranks
from nodes import Node

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")
PYTHON = os.environ.get("PROBING_TEST_TORCH", sys.executable).split(os.pathsep)[0]
KEYS = ("op", "bytes", "dtype", "src_rank", "dst_rank", "group_name")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = ranks.Pair(PYTHON, "comm_ranks.py", tmp_path_factory.mktemp("comm"))
    yield made
    made.stop()


@pytest.mark.parametrize("rank", [0, 1])
def test_operations_are_those_that_were_sent(pair, rank):
    rows = pair.rows("SELECT * FROM comm_metrics WHERE state <> 'failed' ORDER BY timestamp", rank)
    assert [{key: row[key] for key in KEYS} for row in rows] == pair.books[rank]["rows"]
    assert {row["state"] for row in rows} == {"done"}
    assert {row["group_size"] for row in rows} == {2} and {row["rank"] for row in rows} == {rank}
    assert all(row["latency_ms"] > 0 for row in rows)


def test_failed_calls_are_said_to_have_failed(pair):
    """torch refuses "no tensor" before it sends, or after."""
    rows = pair.rows("SELECT op FROM comm_metrics WHERE state = 'failed'", 0)
    assert rows in ([], [{"op": "all_reduce"}])


def test_numbers_are_the_same_on_both_ranks(pair):
    rows = pair.node.rows("SELECT group_name, seq, op, count(DISTINCT rank) AS ranks FROM "
                          "comm_metrics WHERE op NOT IN ('send', 'recv') AND state = 'done' AND "
                          "%s GROUP BY ALL ORDER BY group_name, seq" % pair.mine)
    assert {row["ranks"] for row in rows} == {2}, rows
    numbers = [row["seq"] for row in rows if row["group_name"] == "default_pg"]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    sent = pair.node.rows("SELECT op, src_rank, dst_rank, seq FROM comm_metrics WHERE op IN "
                          "('send', 'recv') AND %s ORDER BY op" % pair.mine)
    assert [tuple(row.values()) for row in sent] == [("recv", 0, 1, 1), ("send", 0, 1, 1)]


def test_each_operation_has_two_rows(pair):
    rows = pair.rows("SELECT timestamp, list(state ORDER BY latency_ms NULLS FIRST) AS states FROM "
                     "python.comm WHERE state NOT IN ('seen', 'failed') GROUP BY timestamp", 0)
    states = [row["states"] for row in rows]
    assert all("started" in str(one) for one in states), states


def test_slow_ranks(pair):
    rows = pair.node.rows("SELECT * FROM slow_ranks WHERE group_name = 'default_pg' AND "
                          + pair.mine)
    assert sorted(row["rank"] for row in rows) == [0, 1]
    assert 99 < sum(row["last_pct"] for row in rows) < 201


def test_a_hang_that_began_before_the_agent_came(pair):
    """Ejected, hung, injected again; last, since the ranks do nothing more."""
    for pid in pair.job.pids.values():
        assert pair.node(pid, "eject").returncode == 0
    open(pair.go + ".hang", "w").close()
    pair.job.says("restored 1 True")
    for pid in pair.job.pids.values():
        assert pair.node(pid, "inject").returncode == 0
    found = ranks.wait_for(pair.node, "SELECT * FROM hung_collectives WHERE " + pair.mine)
    assert [(row["problem"], row["rank"], row["func"]) for row in found] == [
        ("missing", 1, "run"), ("waiting", 0, "run")]


def test_switched_on_and_off_it_changes_nothing(tmp_path):
    """In the midst of operations of two threads and two groups."""
    node = Node(tmp_path)
    go, end = tmp_path / "go", tmp_path / "end"
    job = ranks.Job([PYTHON, os.path.join(harness.TARGETS, "comm_toggle.py"), "PORT", str(go),
                     str(end), "100"], 2, tmp_path)
    toggles, limit = 0, time.monotonic() + 120
    try:
        ranks.inject(node, job)
        go.touch()
        while job.text().count("same") < 2:
            if toggles == 12:
                end.touch()
            for pid in job.pids.values():
                answer = node(pid, "config", "torch.comm=" + ("off", "on")[toggles % 2])
                assert answer.returncode == 0, (answer.stderr, job.text())
            toggles += 1
            assert time.monotonic() < limit, job.text()
            time.sleep(0.03)
        assert sorted(re.findall(r"same (\d True)\n", job.text())) == ["0 True", "1 True"]
    finally:
        job.stop()
        node.stop()
